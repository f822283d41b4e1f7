"""How processes of actors come to be: the fastest way this host allows, and the next if it fails.

A clone of a warm template's image, a fork of a warm template, or a start from scratch (paper §4.3).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

import msgspec

from artos.errors import TemplateFailed
from artos.plan import Site
from artos.protocol.invocations import FromMember
from artos.system.child import Child, ProcessSpec, start
from artos.system.child_modules import ChildModule
from artos.system.logs import rotate
from workers.host.slots import Slot

_log = logging.getLogger(__name__)

Kind = Literal["cold", "fork", "clone"]
TEMPLATE = "template"


class Birth(NamedTuple):
    """A new process of an actor, and the way it came to be."""

    member: int
    child: Child
    kind: Kind


class Place(NamedTuple):
    """Where actors of a run are born: its shared memory, its logs, its plan, the user's code."""

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
        """The log file of that name for somebody new, rotated if it grew large."""
        return _fit_to_append(self._path(name))

    def log_of(self, member: int) -> Path:
        """The actor's log file for a new process of it, rotated if it grew large."""
        return _fit_to_append(self.path_of(member))

    def cap_template_log(self) -> None:
        """Keep what a template prints from filling the disk; see ``rotate``."""
        rotate(self._path(TEMPLATE))

    def path_of(self, member: int) -> Path:
        """Where the actor's log file is."""
        return self._path(f"actor-{member - 1}")

    def _path(self, name: str) -> Path:
        return Path(self.site.logs) / f"{name}.log"


def _fit_to_append(log: Path) -> Path:
    log.parent.mkdir(parents=True, exist_ok=True)
    rotate(log)
    return log


class Way(Protocol):
    """One way to make processes of actors."""

    kind: Kind

    def request(self, member: int, slot: Slot | None) -> None:
        """Ask for a process, on that slot's CPU if there is one; it comes by ``poll``."""

    def heard(self, message: FromMember) -> None:
        """The template reported."""

    def poll(self) -> list[Birth]:
        """Processes made since the last call. Never waits.

        Raises:
            TemplateFailed: this way is barred; what was requested will not come.
        """

    def close(self) -> None:
        """End the template and everything under way."""


class ColdStart:
    """Every actor imports and builds everything itself."""

    kind: Kind = "cold"

    def __init__(self, place: Place, prefix: Callable[[Slot | None], Sequence[str]]) -> None:
        self._place, self._prefix = place, prefix
        self._born: list[Birth] = []

    def request(self, member: int, slot: Slot | None) -> None:
        """See ``Way.request``."""
        arguments = (self._place.text_for(member), str(self._place.plan_file))
        spec, log = ProcessSpec(ChildModule.MEMBER, arguments), self._place.log_of(member)
        child = start(spec, log, prefix=self._prefix(slot))
        self._born.append(Birth(member, child, self.kind))

    def heard(self, message: FromMember) -> None:
        """There is no template."""

    def poll(self) -> list[Birth]:
        """See ``Way.poll``."""
        born, self._born = self._born, []
        return born

    def close(self) -> None:
        """Nothing is under way."""


class Nursery:
    """Ways in order of preference; the next one is made when the one before it fails."""

    def __init__(self, ways: Sequence[Callable[[], Way]]) -> None:
        self._later = list(ways)
        self._asked: dict[int, Slot | None] = {}
        self._way: Way | None = None

    def request(self, member: int, slot: Slot | None = None) -> None:
        """See ``Way.request``. The first one starts the template."""
        if self._way is None:
            self._way = self._later.pop(0)()
        self._asked[member] = slot
        self._way.request(member, slot)

    def withdraw(self, member: int) -> None:
        """Nobody wants this process any more; if it comes nevertheless, ``poll`` kills it."""
        self._asked.pop(member, None)

    def heard(self, message: FromMember) -> None:
        """See ``Way.heard``."""
        if self._way is not None:
            self._way.heard(message)

    def poll(self) -> list[Birth]:
        """Processes made since the last call. Never waits."""
        if self._way is None:
            return []
        try:
            born = self._way.poll()
        except TemplateFailed as failed:
            born = self._fall_back(self._way, failed).poll()
        return [birth for birth in born if self._is_wanted(birth)]

    def _is_wanted(self, birth: Birth) -> bool:
        if birth.member in self._asked:
            del self._asked[birth.member]
            return True
        birth.child.kill()
        return False

    def _fall_back(self, barred: Way, failed: TemplateFailed) -> Way:
        if not self._later:
            raise failed
        barred.close()
        way = self._way = self._later.pop(0)()
        _log.warning("%s; actors are started by %s instead", failed, way.kind)
        for member, slot in self._asked.items():
            way.request(member, slot)
        return way

    def close(self) -> None:
        """End everything under way."""
        if self._way is not None:
            self._way.close()
