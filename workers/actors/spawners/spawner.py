"""Makes actor processes in the fastest way this host allows, and in the next way if that fails.

The ways: a clone of a warm template's image, a fork of a warm template, a start from scratch
(paper §4.3).
"""

from __future__ import annotations

import itertools
import logging
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

import msgspec

from artos.clock import Clock, SystemClock
from artos.errors import TemplateFailed
from artos.protocol.invocations import FromMember
from artos.runs.plan import Site
from artos.specs.members import Member
from artos.system.child import Child, ProcessSpec, start
from artos.system.child_modules import ChildModule
from artos.system.logs import rotate
from workers.host.pinning import Prefix
from workers.host.slots import Slot

_log = logging.getLogger(__name__)

Kind = Literal["cold", "fork", "clone"]
TEMPLATE = "template"
_PAUSE_SECONDS = 1.0
"""Until a process is tried again that the system would not make: others may end meanwhile."""
_TRIES = 5


class Spawned(NamedTuple):
    """A new process of an actor, and how it was spawned."""

    member: Member
    child: Child
    kind: Kind


class Place(NamedTuple):
    """What actor processes of a run need: shared memory, logs, the plan, the user's code."""

    site: Site
    plan_file: Path
    code: str = ""

    def site_for(self, member: Member) -> Site:
        """The member's site."""
        return msgspec.structs.replace(self.site, member=member)

    def text_for(self, member: Member) -> str:
        """The member's site as JSON."""
        return msgspec.json.encode(self.site_for(member)).decode()

    def log(self, name: str) -> Path:
        """The log file of that name for a new process, rotated if it has grown large."""
        return _fit_to_append(self._path(name))

    def log_of(self, member: Member) -> Path:
        """The log file for a new process of the actor, rotated if it has grown large."""
        return _fit_to_append(self.path_of(member))

    def cap_template_log(self) -> None:
        """Keep the template's output from filling the disk; see ``rotate``."""
        rotate(self._path(TEMPLATE))

    def path_of(self, member: Member) -> Path:
        """The path of the actor's log file."""
        return self._path(f"actor-{member.rank}")

    @property
    def memory(self) -> Path:
        """The file for the memory that the first template shares with the actors made from it."""
        return Path(self.site.folder) / "template.memory"

    def new_memory(self) -> Path:
        """A file that is not there yet for memory of another template."""
        later = (self.memory.with_stem(f"template-{number}") for number in itertools.count(2))
        return next(file for file in itertools.chain([self.memory], later) if not file.exists())

    def _path(self, name: str) -> Path:
        return Path(self.site.logs) / f"{name}.log"


def _fit_to_append(log: Path) -> Path:
    log.parent.mkdir(parents=True, exist_ok=True)
    rotate(log)
    return log


class SpawnStrategy(Protocol):
    """One way to make actor processes."""

    kind: Kind
    optional: bool
    """Whether it is not for every environment, so that its failure is no news."""

    @property
    def ready(self) -> bool:
        """Whether a request need not wait for a template."""

    def request(self, member: Member, slot: Slot | None) -> None:
        """Ask for a process, which ``poll`` will return.

        Where it is started by a command, it is on that slot's CPU, if one is given, at once.

        Raises:
            OSError: the system makes no process now; nothing was asked for.
        """

    def heard(self, message: FromMember) -> None:
        """The template reported."""

    def poll(self) -> list[Spawned]:
        """Processes made since the last call. Never waits.

        Raises:
            TemplateFailed: the strategy cannot be used any more; pending requests are lost.
        """

    def close(self) -> None:
        """End the template, and every start that is under way."""


class ColdStart:
    """Every actor imports and builds everything itself."""

    kind: Kind = "cold"
    optional, ready = False, True

    def __init__(self, place: Place, prefix: Prefix) -> None:
        self._place, self._prefix = place, prefix
        self._spawned: list[Spawned] = []

    def request(self, member: Member, slot: Slot | None) -> None:
        """Start the process; the next ``poll`` returns it."""
        arguments = (self._place.text_for(member), str(self._place.plan_file))
        spec, log = ProcessSpec(ChildModule.MEMBER, arguments), self._place.log_of(member)
        child = start(spec, log, prefix=self._prefix(slot))
        self._spawned.append(Spawned(member, child, self.kind))

    def heard(self, message: FromMember) -> None:
        """There is no template."""

    def poll(self) -> list[Spawned]:
        """Processes started since the last call."""
        spawned, self._spawned = self._spawned, []
        return spawned

    def close(self) -> None:
        """Nothing is under way."""


class EarlySpawn(Protocol):
    """A way to make the first actors at once; see ``Early``."""

    others: bool

    def spawn(self, member: Member) -> Spawned | None:
        """A new process of that actor; None if another way to spawn it must be taken."""


class Spawner:
    """Spawns actors by the best of its strategies, and by the next one after it has failed.

    With an ``early`` spawn the first actors need not wait for a template; one is only started if
    there may be others.

    At most ``most`` are being set up at once, in the order in which they were asked for, those that
    are needed now first: a thousand together would leave no CPU to the daemons of their machine,
    which would be taken for dead.

    A process that the system does not make (too many processes, no memory) is tried again after a
    pause; once that has failed five times in a row, ``given_up`` tells of it.
    """

    def __init__(
        self,
        strategies: Sequence[Callable[[], SpawnStrategy]],
        early: EarlySpawn | None = None,
        most: int = sys.maxsize,
        clock: Clock | None = None,
    ) -> None:
        self._later, self._early, self._most = list(strategies), early, most
        self._clock = clock or SystemClock()
        self._resumes_at, self._failures = self._clock.now(), 0
        self._given_up: dict[Member, str] = {}
        self._waiting: dict[Member, Slot | None] = {}
        self._urgent: dict[Member, None] = {}
        self._unready: set[Member] = set()
        self._asked: dict[Member, Slot | None] = {}
        self._begun: list[Spawned] = []
        self._strategy: SpawnStrategy | None = None

    def warm_up(self) -> None:
        """Start the template before the first process is asked for; ``poll`` goes on with it."""
        if self._strategy is None:
            self._strategy = self._next()

    def _next(self) -> SpawnStrategy:
        """The best strategy that is left and can be begun."""
        while True:
            try:
                return self._later.pop(0)()
            except OSError as error:
                if not self._later:
                    raise
                _log.warning("a template cannot be started: %s; actors do without it", error)

    @property
    def warm(self) -> bool:
        """Whether a process that is asked for now is made at once."""
        return self._strategy is not None and self._strategy.ready

    def request(self, member: Member, slot: Slot | None = None) -> None:
        """Ask for a process, on that slot's CPU if one is given; the first starts the template."""
        self._waiting[member] = slot
        self._begin()

    def ready(self, member: Member) -> None:
        """Note that an actor can be used: the next ``poll`` begins with another one."""
        self._unready.discard(member)

    def hurry(self, member: Member) -> None:
        """An actor is needed now: it is begun with before those that are not."""
        if member in self._waiting:
            self._urgent[member] = None

    def _begin(self) -> None:
        while (
            self._waiting
            and len(self._unready) < self._most
            and self._clock.now() >= self._resumes_at
        ):
            member = next(iter(self._urgent or self._waiting))
            slot = self._waiting[member]
            try:
                self._spawn(member, slot)
            except OSError as error:
                self._put_off(member, error)
                continue
            self._failures = 0
            self._asked[member] = self._waiting.pop(member)
            self._urgent.pop(member, None)
            self._unready.add(member)

    def _put_off(self, member: Member, error: OSError) -> None:
        self._failures += 1
        self._resumes_at = self._clock.now() + _PAUSE_SECONDS
        if self._failures < _TRIES:
            return
        self._failures = 0
        self.withdraw(member)
        self._given_up[member] = f"no process could be made: {error}"

    def given_up(self) -> dict[Member, str]:
        """Members asked for of which no process could be made since the last call, and why."""
        given_up, self._given_up = self._given_up, {}
        return given_up

    def _spawn(self, member: Member, slot: Slot | None) -> None:
        first = None if self._early is None else self._early.spawn(member)
        if first is not None:
            self._begun.append(first)
        if self._strategy is None and (first is None or (self._early and self._early.others)):
            self._strategy = self._next()
        if first is None and self._strategy is not None:
            self._strategy.request(member, slot)

    def withdraw(self, member: Member) -> None:
        """The process is gone, or not wanted any more: if it is made anyway, ``poll`` kills it."""
        for each in (self._asked, self._waiting, self._urgent, self._given_up):
            each.pop(member, None)
        self.ready(member)

    def heard(self, message: FromMember) -> None:
        """Pass on what a template reported."""
        if self._strategy is not None:
            self._strategy.heard(message)

    def poll(self) -> list[Spawned]:
        """Processes made since the last call. Never waits."""
        self._begin()
        begun, self._begun = self._begun, []
        spawned = [each for each in begun if self._is_wanted(each)]
        return spawned + [each for each in self._made() if self._is_wanted(each)]

    def _made(self) -> list[Spawned]:
        if self._strategy is None:
            return []
        try:
            made = self._strategy.poll()
        except TemplateFailed as failed:
            if not self._later:
                raise
            barred = self._strategy
            barred.close()
            strategy = self._strategy = self._next()
            level = logging.DEBUG if barred.optional else logging.WARNING
            _log.log(level, "%s; actors are started by %s instead", failed, strategy.kind)
            self._waiting = self._asked | self._waiting
            self._unready -= self._asked.keys()
            self._asked.clear()
            self._begin()
            return self._made()
        if made:
            self._early = None  # what it makes is lighter
        return made

    def _is_wanted(self, spawned: Spawned) -> bool:
        if spawned.member in self._asked:
            del self._asked[spawned.member]
            return True
        spawned.child.kill()
        return False

    def close(self) -> None:
        """End every start that is under way; nothing is begun any more."""
        for each in (self._asked, self._waiting, self._urgent):
            each.clear()
        if self._strategy is not None:
            self._strategy.close()
        self._most, self._strategy = 0, None
