"""The path of a row, and of a version: what made it, and what was made of it.

Only what the journal says for certain becomes a step; ``said`` names what it does not say.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import msgspec

from artos.errors import Refused
from artos.specs.members import LEARNER, actor_of
from deploy.dashboard.reading import Line, Reading
from deploy.tracing.lines import goes_on_anew
from head.records.shape import Shape
from triggers.journal_index import JournalIndex
from triggers.targets import parsed

_BEFORE, _AROUND = 1 << 20, 4 << 20
"""Bytes of a journal that are read before a place, and after the last line that belongs there."""
_MOST = 64
"""Rounds of a version, and firings that took a row, that are listed."""


class Step(msgspec.Struct, frozen=True):
    """A station of a path; ``begin`` is the time at which it began, ``end`` that of its end."""

    what: str
    """``round``, ``firing``, ``update``, or ``preparation``, which makes no version."""
    member: str
    begin: float = msgspec.field(name="from")
    end: float = msgspec.field(name="to")
    facts: dict[str, Any] = {}


class Path(msgspec.Struct, frozen=True):
    """What happened to a row or a version, in order; ``said`` explains what is missing."""

    steps: list[Step]
    lag: int | None = None
    """How many versions older the row was than the one that learned from it started from."""
    said: str = ""


def path_of_row(
    index: JournalIndex, shape: Shape, actor: int, row: int, env: int | None = None
) -> Path:
    """The round that sampled a row, the firings that took it, and what learned from it.

    Several learners take it each by a firing of its own. Where whole episodes are handed over, a
    row of all environments is taken by many firings: ``env`` is the number of one environment, as
    claims have it. Of a run that was resumed and sampled a row twice, one of both is found.

    Raises:
        JournalDamaged: a file of the journal cannot be read or unpacked.
    """
    name, reading = f"actor {actor}", Reading(index)
    story = _OfRow(actor, row, env, shape.steps)
    at = reading.search(lambda line: _end(line) if line.get("by") == name else None, row + 1)
    soon = _read(index, reading, at, story)
    early = story.of_episodes or _hands_over_episodes(shape.triggers)
    early = early and not (story.round and {"ended", "kept"} & story.round.line.keys())
    made, lag = None if early else story.round, None
    steps = [_step("round", made)] if made else []
    said = [*_of_its_round(story, name, row, early=early)]
    for taken in story.taken[:_MOST]:
        steps += _steps_of(taken, shape.non_publishing)
        lag = taken.lag(made) if lag is None else lag
        said += _of_a_firing(taken, lag, soon)
    if not story.taken and story.reached:
        why = "rows that samplers draw are not listed one by one"
        said.append(f"no firing took it {soon} ({why})")
    if len(story.taken) > _MOST:
        said.append(f"the first {_MOST} firings are listed: give the number of an environment")
    return Path(steps, lag, _sentences(said, reading))


def _of_its_round(story: _OfRow, name: str, row: int, *, early: bool) -> Iterator[str]:
    """What is not known of the round of actor ``name`` that sampled a row."""
    if story.round and not early:
        if "again" in story.round.line:
            yield f"{name} died before it answered: when its round ended is not known"
    elif not story.reached:
        yield f"no round of {name} is known to have reached row {row:,}"
    else:
        why = ": where whole episodes are handed over, rounds may end early" if early else ""
        yield f"which round of {name} sampled it is not known{why}"


def _steps_of(taken: _Taken, non_publishing: Collection[str]) -> Iterator[Step]:
    """A firing that took a row, and what came of it."""
    yield _step("firing", taken.firing)
    if taken.learned:
        prepares = parsed(taken.target).method in non_publishing
        yield _step("preparation" if prepares else "update", taken.learned)


def _of_a_firing(taken: _Taken, lag: int | None, soon: str) -> Iterator[str]:
    """What became of a row that it took, if no update did; or what is not known of its ``lag``."""
    if taken.dropped:
        cut = ", or its episode has no end" if taken.of_episode else ""
        yield f"it was dropped: it was older than max_lag allows{cut}"
    elif taken.learned:
        if lag is None and "lags" in taken.learned.line:
            yield taken.lag_in_words()
    elif not parsed(taken.target).ships:
        yield f"no update with it has ended {soon} ({taken.target})"


def learners_of(shape: Shape) -> list[str]:
    """The learners of a run, the one whose versions are meant if none is named first."""
    found = {parsed(target).role for target in shape.triggers if parsed(target).learns}
    first = shape.learner or LEARNER
    return sorted(found, key=lambda name: (name != first, name))


def path_of_version(index: JournalIndex, shape: Shape, version: int, learner: str = "") -> Path:
    """The update that made a version of a learner, the rounds under it, and the next update.

    Without a name it is the first of the run's learners.

    Raises:
        Refused: there is no such learner, or no update is known to have made it.
        JournalDamaged: a file of the journal cannot be read or unpacked.
    """
    learners = learners_of(shape)
    learner = learner or next(iter(learners), LEARNER)
    if learner not in learners:
        raise Refused([f"there is no learner {learner!r}: choose {', '.join(sorted(learners))}"])
    reading = Reading(index)
    story = _OfVersion(version, learner, shape.non_publishing)
    _read(index, reading, reading.search(story.made, version), story)
    if (update := story.update) is None:
        raise Refused([f"no update of {learner} is known to have made version {version}"])
    # Versions in lines of actors are those of the first learner; of others they name the learner.
    told = learner == shape.learner if shape.learner else "lags" in update.line
    is_first = told or learners == [learner]
    rounds = story.beside or (story.rounds if is_first else [])
    later = sorted([*rounds[:_MOST], *story.following], key=lambda seen: seen.time)
    said = [f"the first {_MOST} rounds are listed"] if len(rounds) > _MOST else []
    if not (is_first or story.is_read):
        said.append(f"which rounds were sampled under it is not known: none names {learner}")
    steps = [_step("firing", story.cause)] if story.cause else []
    steps.append(_step("update", update))
    steps += (_step("update" if each in story.following else "round", each) for each in later)
    return Path(steps, None, _sentences(said, reading))


class _Seen(NamedTuple):
    """A line, and its time in seconds; a line that has none comes just after one that has."""

    line: Line
    time: float


class _Story(Protocol):
    """What is looked for in lines that are read in their order."""

    @property
    def is_told(self) -> bool:
        """Whether it is known so far that what comes of another part of the run is none of it."""

    def begin_anew(self) -> None:
        """The run was resumed: numbers of firings, and maybe of rows and versions, begin again."""

    def sees(self, seen: _Seen) -> bool:
        """Look at a line; returns whether it belongs to the story."""


def _read(index: JournalIndex, reading: Reading, at: int, story: _Story) -> str:
    """Read from near an address on; returns, in words, how long what never came did not come."""
    until, last = at + _AROUND, 0.0
    for address, line in reading.addressed(at - _BEFORE, index.size):
        if address > until:
            return f"in the next {_AROUND >> 20} MB of the journal"
        if goes_on_anew(line, last):
            if address > at and story.is_told:
                return "before the run was resumed"
            story.begin_anew()
            last = 0.0
        last = max(last, line.get("t", last))
        if story.sees(_Seen(line, index.offset_at(address) + line.get("t", last))):
            until = max(until, address + _AROUND)
    return "yet"


@dataclass
class _Taken:
    """A firing that took a row, by these of its claims; or that ``dropped`` it."""

    firing: _Seen
    claims: list[int]
    dropped: bool
    of_episode: bool
    answer: _Seen | None = None

    @property
    def target(self) -> str:
        """Whom it invoked, and with which method."""
        found: str = self.firing.line["trigger"]
        return found

    @property
    def learned(self) -> _Seen | None:
        """The answer of who was handed the row, if that had something to learn from."""
        if self.answer and "nothing" in self.answer.line:
            return None
        return self.answer

    def _lags(self) -> list[tuple[float, ...]]:
        """Mean and largest of each of these claims; none where lags are of other rows."""
        claims, lags = self.firing.line["claims"], self.learned.line["lags"] if self.learned else ()
        pairs = [*zip(claims, lags, strict=False)]
        own = (claim[0] == lag[0] and len(lag) > 2 for claim, lag in pairs)
        if len(pairs) < len(claims) or not all(own):
            return []
        return [tuple(lags[number][1:3]) for number in self.claims]

    def lag(self, made: _Seen | None) -> int | None:
        """How old the row was, if all of its claim were equally old; None if that is not known."""
        if self.learned is None or "lags" not in self.learned.line:
            return None
        found = {number for lag in self._lags() for number in lag}
        if len(found) != 1:
            return None
        (lag,), version = found, made.line.get("version") if made else None
        # An update starts from the version before its own.
        by_versions = lag if version is None else self.learned.line["version"] - 1 - version
        return int(lag) if lag == by_versions else None

    def lag_in_words(self) -> str:
        """What is known of how old it was."""
        words = "; ".join(
            f"rows claimed with it: {mean:g} on average, {most:g} at most"
            for mean, most in dict.fromkeys(self._lags())
        )
        return "how many versions old it was is not known" + (f" ({words})" if words else "")


class _OfRow:
    """Follows a row of an actor, in rounds of so many ``steps``."""

    def __init__(self, actor: int, row: int, env: int | None, steps: int) -> None:
        self._actor, self._row, self._env, self._steps = actor, row, env, steps
        self.reached = self.of_episodes = False
        """Whether a round went beyond the row; whether claims are of single environments."""
        self.round: _Seen | None = None
        self.taken: list[_Taken] = []
        self._open: dict[int, _Taken] = {}

    @property
    def is_told(self) -> bool:
        return bool(self.taken)

    def begin_anew(self) -> None:
        self.round = None
        self.taken, self._open = [], {}

    def sees(self, seen: _Seen) -> bool:
        line = seen.line
        if "firing" in line:
            return self._fired(seen)
        is_own = "lost" in line and line.get("actor") == self._actor
        lost = line.get("from") if is_own else None
        if isinstance(lost, int) and lost <= self._row and not self.taken:
            self.round = None  # it is sampled again, at another place
            return True
        if line.get("by") == f"actor {self._actor}":
            end = _end(line)
            if end is None or end <= self._row or self.round:
                return False
            self.reached = True
            # One that began later did not sample it: the line of the one that did is not there.
            asked = line.get("stop", 0) if "again" in line else end
            self.round = seen if asked - self._steps <= self._row else None
            return self.round is not None
        taken = self._open.pop(line["done"], None) if "done" in line else None
        if taken:
            taken.answer = seen
        return taken is not None

    def _fired(self, seen: _Seen) -> bool:
        found = False
        for kind in ("claims", "dropped"):
            claims, of_episode = seen.line.get(kind, ()), False
            own = list[int]()
            for number, (actor, begin, end, *env) in enumerate(claims):
                of_episode |= bool(env)
                if actor == self._actor and begin <= self._row < end:
                    own += [number] if self._env is None or env in ([], [self._env]) else []
            self.of_episodes |= of_episode
            if own and len(self.taken) <= _MOST:
                taken = _Taken(seen, own, kind == "dropped", of_episode)
                self.taken.append(taken)
                if not taken.dropped:
                    self._open[seen.line["firing"]] = taken
                found = True
        return found


class _OfVersion:
    """Follows a version of a learner, some of whose methods publish none."""

    def __init__(self, version: int, learner: str, non_publishing: tuple[str, ...]) -> None:
        self._version, self._learner, self._prepare = version, learner, non_publishing
        self._firings: dict[int, _Seen] = {}
        self.cause: _Seen | None = None
        self.update: _Seen | None = None
        self.following: list[_Seen] = []
        """The next update, if it is known."""
        self.rounds: list[_Seen] = []
        """Those under this version of the first learner."""
        self.beside: list[_Seen] = []
        """Those under this version of the learner beside that."""
        self.is_read = False
        """Whether actors read anything of it, and so name its versions."""

    def made(self, line: Line) -> int | None:
        """The version that there was after an invocation of the learner."""
        is_own = "done" in line and line.get("by") == self._learner and "nothing" not in line
        return line.get("version") if is_own else None

    @property
    def is_told(self) -> bool:
        return self.update is not None

    def begin_anew(self) -> None:
        self._firings, self.rounds, self.beside = {}, [], []

    def sees(self, seen: _Seen) -> bool:
        line = seen.line
        if "firing" in line:
            self._firings[line["firing"]] = seen
        elif (made := self.made(line)) is not None:
            cause = self._firings.get(line["done"])
            if cause and parsed(cause.line["trigger"]).method in self._prepare:
                return False
            if self.update is None and made == self._version:
                self.cause, self.update = cause, seen
                return True
            if self.update and not self.following and made == self._version + 1:
                self.following = [seen]
                return True
        elif actor_of(line.get("by", "")) is not None and _end(line):
            beside = line.get("beside", {})
            self.is_read |= self._learner in beside
            found = False
            for version, rounds in (
                (line.get("version"), self.rounds), (beside.get(self._learner), self.beside),
            ):  # fmt: skip
                if version == self._version and len(rounds) <= _MOST:
                    rounds.append(seen)
                    found = True
            return found
        return False


def _end(line: Line) -> int | None:
    """The row up to which an actor has sampled with this line; None if that is not in it."""
    if "again" in line:  # nobody answered for it; of a round whose node is gone, some rows are left
        return line.get("kept") or line.get("stop") or None
    return line.get("ended") or line.get("stop") or None


def _hands_over_episodes(spec: Any) -> bool:
    """Whether any trigger of a table claims whole episodes; then rounds may end early."""
    if not isinstance(spec, dict):
        return False
    return bool("keys" in spec and spec.get("episodes")) or any(
        map(_hands_over_episodes, spec.values())
    )


def _step(what: str, seen: _Seen) -> Step:
    line, end = seen
    facts = {name: value for name, value in line.items() if name not in ("t", "by", "seconds")}
    return Step(what, line.get("by", "triggers"), end - line.get("seconds", 0.0), end, facts)


def _sentences(said: list[str], reading: Reading) -> str:
    if reading.damaged:
        said = [*said, f"{reading.damaged:,} damaged lines near it are left out"]
    return "; ".join(dict.fromkeys(said))
