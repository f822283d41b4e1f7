"""The path of a row, and of a version: what made it, and what was made of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from msgspec import field

from artos.errors import Refused
from deploy.dashboard.timeline import Reading
from triggers.journal_index import JournalIndex

_AROUND = 4 << 20
"""Bytes of a journal that are searched for what comes next."""
_MOST = 64
"""Rounds and updates that are listed of a version."""
_Line = dict[str, Any]


class Step(msgspec.Struct, frozen=True):
    """A station of a path; ``begin`` is the time at which it began, ``end`` that of its end."""

    what: str
    """``round``, ``firing`` or ``update``."""
    member: str
    begin: float = field(name="from")
    end: float = field(name="to")
    facts: dict[str, Any] = {}


class Path(msgspec.Struct, frozen=True):
    """What happened to a row or a version, in order; ``said`` explains what is missing."""

    steps: list[Step]
    lag: int | None = None
    """How many versions older the row was than the one that learned from it started from."""
    said: str = ""


def path_of_row(index: JournalIndex, actor: int, row: int) -> Path:
    """The round that sampled a row, the firing that handed it on, and the update that learned.

    Of a run that was resumed and sampled a row twice, one of both is found.

    Raises:
        JournalDamaged: a file of the journal cannot be read or unpacked.
    """
    name, look = f"actor {actor}", _Look(index)

    def sampled(line: _Line) -> int | None:
        return line.get("stop") if line.get("by") == name else None

    def claimed(line: _Line) -> int | None:
        ends = [end for who, _, end, *_ in _parts(line) if who == actor]
        return max(ends, default=None)

    made = look.first(sampled, row + 1)
    firing = look.first(claimed, row + 1)
    steps = [_step("round", made, look)] if made else []
    said = "" if made else f"no round of {name} is known to have reached row {row:,}"
    if firing is None or not any(who == actor and a <= row < b for who, a, b, *_ in _parts(firing)):
        why = "no firing took it (rows that samplers draw are not listed one by one)"
        return Path(steps, None, said or why)
    steps.append(_step("firing", firing, look))
    if any(who == actor and a <= row < b for who, a, b, *_ in firing.get("dropped", ())):
        return Path(steps, None, "it was dropped: it was older than max_lag allows")
    update = look.answer(firing)
    if update is None:
        return Path(steps, None, said or "no update with it has ended yet")
    steps.append(_step("update", update, look))
    # An update starts from the version before its own.
    lag = update["version"] - 1 - made["version"] if made and "lags" in update else None
    return Path(steps, lag, said)


def path_of_version(index: JournalIndex, version: int, learner: str = "learner") -> Path:
    """The update that made a version, the rounds sampled under it, and who learned from these.

    Raises:
        Refused: no update is known to have made it.
        JournalDamaged: a file of the journal cannot be read or unpacked.
    """
    look = _Look(index)

    def made(line: _Line) -> int | None:
        return line.get("version") if line.get("by") == learner and "lags" in line else None

    update = look.first(made, version)
    if update is None or update["version"] != version:
        raise Refused([f"no update of {learner} is known to have made version {version}"])
    steps = [_step("update", update, look)]
    rounds = 0
    for line in look.lines(look.at):
        if line.get("version") == version and "stop" in line and rounds < _MOST:
            rounds += 1
            steps.append(_step("round", line, look))
        elif made(line) == version + 1:
            steps.append(_step("update", line, look))
            break
    if (cause := look.firing(update)) is not None:
        steps.insert(0, _step("firing", cause, look))
    return Path(steps, None, f"the first {_MOST} rounds are listed" if rounds == _MOST else "")


class _Look:
    """Looks for lines in a journal, near where they must be."""

    def __init__(self, index: JournalIndex) -> None:
        self._index, self._reading = index, Reading(index)
        self.at = 0
        """The address of what was found last, or near before it."""

    def lines(self, begin: int, end: int | None = None) -> Iterator[_Line]:
        return self._reading.lines(begin, begin + _AROUND if end is None else end)

    def time(self, line: _Line) -> float:
        """The time of a line near what was found last, in seconds."""
        found: float = line.get("t", 0.0) + self._index.offset_at(self.at)
        return found

    def first(self, number: Callable[[_Line], int | None], wanted: int) -> _Line | None:
        """The first line whose number is ``wanted`` or more, of those whose numbers grow."""
        self.at = self._index.search(number, wanted)
        for line in self.lines(self.at):
            if (found := number(line)) is not None and found >= wanted:
                return line
        return None

    def answer(self, firing: _Line) -> _Line | None:
        """The line of who has carried out a firing that was found last."""
        wanted = firing["firing"]
        return next((line for line in self.lines(self.at) if line.get("done") == wanted), None)

    def firing(self, done: _Line) -> _Line | None:
        """The firing that a line that was found last carries out."""
        wanted, begin = done["done"], max(0, self.at - _AROUND)
        lines = self.lines(begin, self.at + _AROUND)
        return next((line for line in lines if line.get("firing") == wanted), None)


def _parts(line: _Line) -> list[Any]:
    return [*line.get("claims", ()), *line.get("dropped", ())]


def _step(what: str, line: _Line, look: _Look) -> Step:
    end = look.time(line)
    facts = {name: value for name, value in line.items() if name not in ("t", "by", "seconds")}
    member = line.get("by", "triggers")
    return Step(what, member, end - line.get("seconds", 0.0), end, facts)
