"""What each actor did, and what each firing handed over, as a run's journal has it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple

import msgspec

from artos.errors import Refused
from artos.protocol.invocations import Claim
from artos.specs.configuration import Configuration
from artos.specs.fields import Count, Version
from artos.specs.members import actor_of
from triggers import journal


class Started(NamedTuple):
    """An actor's process was set up, as this incarnation."""

    incarnation: int


class Round(NamedTuple):
    """An actor carried out an invocation.

    It sampled up to row ``stop`` (0: it only bound weights), with weights of this version.
    ``rows`` is a checksum of what it wrote, if there is one; ``large`` has sums of the large values
    of each row, if there are any. If it could end early it says where it ``ended``. Of a round
    whose node was lost only the rows up to ``kept`` are left. ``beside`` has the versions of other
    learners.
    """

    firing: int
    stop: int
    bind: bool
    version: int
    steps: int
    progress: float | None
    configuration: int
    rows: int | None
    kept: int | None = None
    beside: Mapping[str, int] = MappingProxyType({})
    large: bytes = b""
    ended: int | None = None

    @property
    def end(self) -> int:
        """The row up to which there is something of it; 0: it only bound weights."""
        return next((row for row in (self.kept, self.ended) if row is not None), self.stop)


Item = Started | Round


class Fired(NamedTuple):
    """A trigger fired, and handed over these rows."""

    trigger: str
    claims: tuple[Claim, ...]


class _Line(msgspec.Struct, frozen=True):
    firing: Count = 0
    trigger: str = ""
    claims: tuple[Annotated[tuple[Count, ...], msgspec.Meta(min_length=3, max_length=4)], ...] = ()
    done: Count = 0
    again: Count = 0
    by: str = ""
    version: Version = -1
    configuration: Count = 0
    stop: Count = 0
    asked: Annotated[tuple[Any, ...], msgspec.Meta(max_length=3)] = ()
    rows: Count | None = None
    large: bytes = b""
    ready: str = ""
    incarnation: Count = 0
    set: dict[str, float] | None = None
    began: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    to: str = ""
    lost: Count | None = None
    actor: Count = 0
    base: Count | str = msgspec.field(name="from", default=0)
    kept: Count | None = None
    ended: Count | None = None
    beside: dict[str, Version] = {}
    sent_as: str = ""


class _Asked(NamedTuple):
    steps: Count
    bind: Annotated[int, msgspec.Meta(ge=0, le=1)] = 1
    progress: Annotated[float, msgspec.Meta(ge=0)] | None = None


@dataclass
class Script:
    """What happened, in the order in which it did: by actor, and by the number of a firing."""

    actors: dict[int, deque[Item]] = field(default_factory=dict)
    firings: dict[int, Fired] = field(default_factory=dict)
    configurations: dict[int, Configuration] = field(default_factory=dict)
    unknown: set[int] = field(default_factory=set)
    """Actors of which rows are left that no line says anything of: their node was lost."""
    sent_as: str = ""
    """As what actors were sent float32 weights, if they may have been rounded."""
    asked: bool = False
    """Whether there are lines that a replay can be made from."""
    _left: dict[int, int] = field(default_factory=dict)
    """How many rows there were of actors whose node was lost, until they are started again."""
    made: dict[str, int] = field(default_factory=dict)
    """The version that each learner had come to when it answered last."""

    @classmethod
    def parts(
        cls, path: Path, anew: Sequence[Sequence[str]] = (), after: Sequence[int | None] = ()
    ) -> list[Script]:
        """That of a journal, and of each continuation of the run.

        ``anew`` are the names of settings that were given anew at each of these; ``after`` is the
        part with whose books it went on, if it did: what was fired there may be done here.

        Raises:
            Refused: it is damaged, or was not written by ARTOS.
        """
        script, now, begun = cls({}, {}, {0: Configuration()}), Configuration(), 0
        found = [script]
        for number, plain in enumerate(journal.read(path)):
            try:
                line = msgspec.convert(plain, _Line)
                if line.began:
                    begun += 1
                if line.began and begun > 1:
                    now = now.without(anew[begun - 2] if begun - 2 < len(anew) else ())
                    part = after[begun - 2] if begun - 2 < len(after) else None
                    # Without the books of another part, numbers of firings begin again.
                    books = cls() if part is None else found[part]
                    numbered = books.configurations | {now.number: now}
                    found.append(script := cls({}, {**books.firings}, numbered))
                if line.set is not None:
                    now = Configuration(line.configuration, now.settings | line.set)
                    script.configurations[line.configuration] = now
                script.sent_as = line.sent_as or script.sent_as
                script._note(line)
            except (msgspec.ValidationError, ValueError) as error:
                why = f"line {number + 1} is no line of a journal: {error}"
                raise Refused([f"{path}: {why}"]) from error
        return found

    def _note(self, line: _Line) -> None:
        actor = actor_of(line.ready or line.by)
        if line.lost is not None and isinstance(line.base, int):  # else the node that it left
            self._left[line.actor] = line.base
        if line.trigger:
            claims = tuple(Claim(*claim) for claim in line.claims)
            self.firings[line.firing] = Fired(line.trigger, claims)
        elif line.ready and actor is not None:
            if line.incarnation and not line.to:  # else it goes on by its image
                self._starts(actor, line.incarnation)
        elif line.asked and actor is not None:
            asked = msgspec.convert(line.asked, _Asked)
            self.asked = True
            self._of(actor).append(
                Round(
                    line.done or line.again, line.stop, bool(asked.bind), line.version,
                    asked.steps, asked.progress, line.configuration, line.rows, line.kept,
                    line.beside, line.large, line.ended,
                )
            )  # fmt: skip
        elif line.done and actor is None:
            self.made[line.by] = line.version

    def _starts(self, actor: int, incarnation: int) -> None:
        rounds = (item for item in reversed(self._of(actor)) if isinstance(item, Round))
        end = next((each.end for each in rounds if each.stop), 0)
        if self._left.pop(actor, end) > end:
            self.unknown.add(actor)
        self._of(actor).append(Started(incarnation))

    def _of(self, actor: int) -> deque[Item]:
        return self.actors.setdefault(actor, deque())

    def bound(self, beside: str = "") -> Iterator[int]:
        """The version of each binding that is to come, of the first learner or one beside it."""
        for items in self.actors.values():
            fresh = True
            for item in items:
                if isinstance(item, Started):
                    fresh = True
                elif item.bind or fresh:
                    fresh = False
                    yield item.beside.get(beside, -1) if beside else item.version
