"""Makes actor processes in the fastest way this host allows, and in the next way if that fails.

The ways: a clone of a warm template's image, a fork of a warm template, a start from scratch
(paper §4.3).
"""

from __future__ import annotations

import logging
import os
import select
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Literal, NamedTuple, Protocol

import msgspec

from artos.buffer.mailbox import actor_of
from artos.errors import TemplateFailed
from artos.plan import Site
from artos.protocol.invocations import Failed, FromMember
from artos.runtime.template import Identity
from artos.system.child import Child, ProcessSpec, Starter, adopt_orphans, adopts_orphans, start
from artos.system.child_modules import ChildModule
from artos.system.logs import rotate
from workers.checkpoint.criu.suspects import threads
from workers.host.slots import Slot

_log = logging.getLogger(__name__)

Kind = Literal["cold", "fork", "clone"]
TEMPLATE = "template"
_FORK_SECONDS = 20.0
_END_SECONDS = 2.0


class Launched(NamedTuple):
    """A new process of an actor, and how it was launched."""

    member: int
    child: Child
    kind: Kind


class Place(NamedTuple):
    """What actor processes of a run need: shared memory, logs, the plan, the user's code."""

    site: Site
    plan_file: Path
    code: str = ""

    def site_for(self, member: int) -> Site:
        """The member's site."""
        return msgspec.structs.replace(self.site, member=member)

    def text_for(self, member: int) -> str:
        """The member's site as JSON."""
        return msgspec.json.encode(self.site_for(member)).decode()

    def log(self, name: str) -> Path:
        """The log file of that name for a new process, rotated if it has grown large."""
        return _fit_to_append(self._path(name))

    def log_of(self, member: int) -> Path:
        """The log file for a new process of the actor, rotated if it has grown large."""
        return _fit_to_append(self.path_of(member))

    def cap_template_log(self) -> None:
        """Keep the template's output from filling the disk; see ``rotate``."""
        rotate(self._path(TEMPLATE))

    def path_of(self, member: int) -> Path:
        """The path of the actor's log file."""
        return self._path(f"actor-{actor_of(member)}")

    def _path(self, name: str) -> Path:
        return Path(self.site.logs) / f"{name}.log"


def _fit_to_append(log: Path) -> Path:
    log.parent.mkdir(parents=True, exist_ok=True)
    rotate(log)
    return log


class LaunchStrategy(Protocol):
    """One way to make actor processes."""

    kind: Kind

    def request(self, member: int, slot: Slot | None) -> None:
        """Ask for a process, on that slot's CPU if one is given; ``poll`` will return it."""

    def heard(self, message: FromMember) -> None:
        """The template reported."""

    def poll(self) -> list[Launched]:
        """Processes made since the last call. Never waits.

        Raises:
            TemplateFailed: the strategy cannot be used any more; pending requests are lost.
        """

    def close(self) -> None:
        """End the template, and every start that is under way."""


class ColdStart:
    """Every actor imports and builds everything itself."""

    kind: Kind = "cold"

    def __init__(self, place: Place, prefix: Callable[[Slot | None], Sequence[str]]) -> None:
        self._place, self._prefix = place, prefix
        self._launched: list[Launched] = []

    def request(self, member: int, slot: Slot | None) -> None:
        """See ``LaunchStrategy.request``."""
        arguments = (self._place.text_for(member), str(self._place.plan_file))
        spec, log = ProcessSpec(ChildModule.MEMBER, arguments), self._place.log_of(member)
        child = start(spec, log, prefix=self._prefix(slot))
        self._launched.append(Launched(member, child, self.kind))

    def heard(self, message: FromMember) -> None:
        """There is no template."""

    def poll(self) -> list[Launched]:
        """See ``LaunchStrategy.poll``."""
        launched, self._launched = self._launched, []
        return launched

    def close(self) -> None:
        """Nothing is under way."""


class Launcher:
    """Launches actors by the best of its strategies, and by the next one after it has failed."""

    def __init__(self, strategies: Sequence[Callable[[], LaunchStrategy]]) -> None:
        self._later = list(strategies)
        self._asked: dict[int, Slot | None] = {}
        self._strategy: LaunchStrategy | None = None

    def request(self, member: int, slot: Slot | None = None) -> None:
        """See ``LaunchStrategy.request``. The first request starts the template."""
        if self._strategy is None:
            self._strategy = self._later.pop(0)()
        self._asked[member] = slot
        self._strategy.request(member, slot)

    def withdraw(self, member: int) -> None:
        """The process is not wanted any more; if it is made anyway, ``poll`` kills it."""
        self._asked.pop(member, None)

    def heard(self, message: FromMember) -> None:
        """See ``LaunchStrategy.heard``."""
        if self._strategy is not None:
            self._strategy.heard(message)

    def poll(self) -> list[Launched]:
        """Processes made since the last call. Never waits."""
        if self._strategy is None:
            return []
        try:
            launched = self._strategy.poll()
        except TemplateFailed as failed:
            launched = self._fall_back(self._strategy, failed).poll()
        return [each for each in launched if self._is_wanted(each)]

    def _is_wanted(self, launched: Launched) -> bool:
        if launched.member in self._asked:
            del self._asked[launched.member]
            return True
        launched.child.kill()
        return False

    def _fall_back(self, barred: LaunchStrategy, failed: TemplateFailed) -> LaunchStrategy:
        if not self._later:
            raise failed
        barred.close()
        strategy = self._strategy = self._later.pop(0)()
        _log.warning("%s; actors are started by %s instead", failed, strategy.kind)
        for member, slot in self._asked.items():
            strategy.request(member, slot)
        return strategy

    def close(self) -> None:
        """End every start that is under way."""
        if self._strategy is not None:
            self._strategy.close()


class Forks:
    """One process, the fork server, has imported everything and forks on request.

    This process adopts the forks, so that it hears of their deaths at once. A fork has none of the
    fork server's other threads, and code that waits for one of them would wait for ever; so this
    strategy fails if user code has started threads.
    """

    kind: Kind = "fork"

    def __init__(
        self, place: Place, member: int, pin: Callable[[int, Slot], None], begin: Starter = start
    ) -> None:
        self._place, self._pin = place, pin
        self._asked: list[tuple[int, Slot | None]] = []
        self._ready, self._failed = False, ""
        self._adopted = adopts_orphans()
        requests, self._requests = _pipe()
        self._answers, answers = _pipe()
        with requests, answers:
            spec = ProcessSpec(
                ChildModule.TEMPLATE, ("fork", place.text_for(member), str(place.plan_file))
            )
            self._server = begin(spec, place.log(TEMPLATE), stdin=requests, stdout=answers)

    def request(self, member: int, slot: Slot | None) -> None:
        """See ``LaunchStrategy.request``."""
        self._asked.append((member, slot))

    def heard(self, message: FromMember) -> None:
        """See ``LaunchStrategy.heard``."""
        if isinstance(message, Failed):
            self._failed = message.trace
        elif others := threads(self._server.pid):
            self._failed = (
                f"user code started {len(others)} threads ahead ({', '.join(sorted({*others}))}), "
                "which a fork would not have: start them in setup instead"
            )
        else:
            self._ready = True

    def poll(self) -> list[Launched]:
        """See ``LaunchStrategy.poll``."""
        if self._failed or self._server.died() is not None:
            raise TemplateFailed(self.kind, self._failed or self._server.log_tail())
        if not self._ready:
            return []
        asked, self._asked = self._asked, []
        return [self._fork(member, slot) for member, slot in asked]

    def _fork(self, member: int, slot: Slot | None) -> Launched:
        log = self._place.log_of(member)
        order = Identity(self._place.site_for(member), str(log))
        adopt_orphans()
        try:
            self._requests.write(msgspec.json.encode(order) + b"\n")
        except BrokenPipeError:
            raise TemplateFailed(self.kind, "the fork server is gone") from None
        pid = int(self._answer())
        if slot is not None:
            self._pin(pid, slot)
        return Launched(member, Child(pid, log), self.kind)

    def _answer(self) -> bytes:
        ready, _, _ = select.select([self._answers], [], [], _FORK_SECONDS)
        line = self._answers.readline() if ready else b""
        if not line:
            raise TemplateFailed(self.kind, f"the fork server gave no pid in {_FORK_SECONDS:g} s")
        return line

    def close(self) -> None:
        """See ``LaunchStrategy.close``."""
        adopt_orphans(self._adopted)
        self._requests.close()
        self._answers.close()
        self._server.end(_END_SECONDS)


def _pipe() -> tuple[IO[bytes], IO[bytes]]:
    source, sink = os.pipe()
    return os.fdopen(source, "rb", buffering=0), os.fdopen(sink, "wb", buffering=0)
