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
from deploy.tracing.lines import FOR_REPLAY, goes_on_anew, understood
from head.records.shape import Shape
from triggers.journal_index import JournalIndex
from triggers.targets import parsed

_BEFORE, _AROUND = 1 << 20, 4 << 20
"""Bytes of a journal that are read before a place, and after the last line that belongs there."""
_MOST = 64
"""Rounds of a version, and firings that took a row, that are listed."""
_MOST_COUNTED = 128 << 20
"""Bytes of a journal in which updates are counted."""
_TOLD = frozenset(("t", "line", "by", "seconds", *FOR_REPLAY))
"""What of a line is said beside its facts, or says nothing to a person."""


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
    sources: list[Step] = []
    """Of an update the rounds that sampled the rows that its firing claims. Which rows of a round
    these are is its fact ``claimed``, pairs of the first one and the one after the last."""


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
    """The update that made a version of a learner, what it is from, and what came of it.

    That are the rounds that sampled the rows that its firing claims (``sources``), the rounds under
    the version, and the next version. Without a name it is the first of the run's learners.

    Raises:
        Refused: there is no such learner, or no update is known to have made it.
        JournalDamaged: a file of the journal cannot be read or unpacked.
    """
    learner, reading = _one_of(shape, learner), Reading(index)
    story = _OfUpdate(learner, shape, version)
    _read(index, reading, reading.search(story.made, version), story)
    if story.update is None:
        raise Refused([f"no update of {learner} is known to have made version {version}"])
    return story.told(reading)


def path_of_update(index: JournalIndex, shape: Shape, number: int, learner: str = "") -> Path:
    """The path of the update of a learner that is the so-many-th in the journal, from 1.

    Some learners make many updates before they publish a version. What a resumed run learned again
    counts again.

    Raises:
        Refused: there is no such learner, or no such update near enough to the beginning.
        JournalDamaged: a file of the journal cannot be read or unpacked.
    """
    learner, reading = _one_of(shape, learner), Reading(index)
    prepares, preparations, count = {*shape.non_publishing}, set[object](), 0
    for address, content in index.lines(0, min(index.size, _MOST_COUNTED)):
        of = content or {}
        if prepares and str(of.get("trigger", "")).rpartition(".")[2] in prepares:
            preparations.add(str(of.get("firing")))
        if of.get("by") != learner or "done" not in of or "nothing" in of:
            continue
        if (line := understood(of)) is None or str(line["done"]) in preparations:
            continue
        if (count := count + 1) == number:
            story = _OfUpdate(learner, shape, line.get("version", 0), line)
            _read(index, reading, address, story)
            return story.told(reading)
    if index.size > _MOST_COUNTED:
        why = f"not among the {count:,} in the first {_MOST_COUNTED >> 20} MB of the journal"
        raise Refused([f"update {number:,} of {learner} is {why}: ask for its version"])
    raise Refused([f"there is no update {number:,} of {learner}: it has made {count:,} so far"])


def _one_of(shape: Shape, learner: str) -> str:
    learners = learners_of(shape)
    learner = learner or next(iter(learners), LEARNER)
    if learner not in learners:
        raise Refused([f"there is no learner {learner!r}: choose {', '.join(sorted(learners))}"])
    return learner


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


class _Round(NamedTuple):
    """A round of an actor, and the rows that it is known to have sampled."""

    begin: int
    end: int
    seen: _Seen


class _Rounds:
    """The rounds of actors, of so many ``steps`` each; maybe fewer, if they may end ``early``."""

    def __init__(self, steps: int, *, early: bool) -> None:
        self._steps, self._early = steps, early
        self._of: dict[int, list[_Round]] = {}
        self._ends: dict[int, int] = {}
        """The row up to which it is known how each actor came to it."""

    def clear(self) -> None:
        self._of.clear()
        self._ends.clear()

    def add(self, actor: int, seen: _Seen) -> None:
        """Look at a line of an actor."""
        line = seen.line
        if not ((end := _end(line)) or line.get("recovered")):
            return  # it only bound weights, say
        before = self._ends.pop(actor, None)
        if not end:
            return  # nobody said where that round ended
        is_exact = not self._early or not {"ended", "kept"}.isdisjoint(line)
        if is_exact:
            self._ends[actor] = end
        asked = line.get("stop", 0) if "again" in line else end
        begin = max(before or 0, asked - self._steps)
        if self._early and not (is_exact and before is not None):
            begin = end  # which rows are of this round is not known
        self._of.setdefault(actor, []).append(_Round(begin, end, seen))

    def lose(self, actor: int, first: int) -> None:
        """The rows of an actor from this one on are sampled again."""
        rounds = (each._replace(end=min(each.end, first)) for each in self._of.get(actor, ()))
        self._of[actor] = [each for each in rounds if each.begin < each.end]
        self._ends[actor] = first

    def of(self, actor: int, begin: int, end: int) -> list[_Round]:
        """Those that sampled some of these rows, cut to these."""
        found = (
            each._replace(begin=max(begin, each.begin), end=min(end, each.end))
            for each in self._of.get(actor, ())
        )
        return [each for each in found if each.begin < each.end]


class _OfUpdate:
    """Follows an update of a learner: that of a ``line``, or else the one that made a version."""

    def __init__(
        self, learner: str, shape: Shape, version: int, line: Line | None = None
    ) -> None:  # fmt: skip
        self._version, self._learner, self._shape, self._line = version, learner, shape, line
        self._firings: dict[int, _Seen] = {}
        self._sampled = _Rounds(shape.steps, early=_hands_over_episodes(shape.triggers))
        self._lost: set[int] = set()
        """Actors that sample rows again that they had sampled before the update."""
        self._before: int | None = None
        """The version before it."""
        self.cause: _Seen | None = None
        self.update: _Seen | None = None
        self.following: list[_Seen] = []
        """The next update, if it is known; or the one that made the next version."""
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
        self._before = None
        self._sampled.clear()

    def sees(self, seen: _Seen) -> bool:
        line = seen.line
        if "firing" in line:
            self._firings[line["firing"]] = seen
        elif (made := self.made(line)) is not None:
            return self._learned(seen, made)
        elif (actor := actor_of(line.get("by", ""))) is not None:
            if actor not in self._lost:
                self._sampled.add(actor, seen)
            return bool(_end(line)) and self._acted(line, seen)
        elif "lost" in line and isinstance(first := line.get("from"), int):
            if self.update:
                self._lost.add(line.get("actor", -1))
            else:
                self._sampled.lose(line.get("actor", -1), first)
        return False

    def _learned(self, seen: _Seen, made: int) -> bool:
        cause = self._firings.get(seen.line["done"])
        if cause and parsed(cause.line["trigger"]).method in self._shape.non_publishing:
            return False
        if self.update is None:
            if seen.line != self._line if self._line else made != self._version:
                self._before = made
                return False
            self.cause, self.update = cause, seen
            return True
        if self.following or not (self._line or made == self._version + 1):
            return False
        self.following = [seen]
        return True

    def _acted(self, line: Line, seen: _Seen) -> bool:
        beside, found = line.get("beside", {}), False
        self.is_read |= self._learner in beside
        for version, rounds in (
            (line.get("version"), self.rounds), (beside.get(self._learner), self.beside),
        ):  # fmt: skip
            if version == self._version and len(rounds) <= _MOST:
                rounds.append(seen)
                found = True
        return found

    def told(self, reading: Reading) -> Path:
        """The path of the update that it has seen."""
        update = self.update
        assert update is not None
        sources, said = self._sources()
        # Versions in lines of actors are those of the first learner; of others they name it.
        first = self._shape.learner
        is_first = self._learner == first if first else "lags" in update.line
        is_first = is_first or learners_of(self._shape) == [self._learner]
        rounds = self.beside or (self.rounds if is_first else [])
        if self._before == self._version:
            said.append(f"it published nothing: version {self._version:,} was there before")
            rounds = []
        elif not (is_first or self.is_read):
            said.append(f"which rounds were sampled under it is not known: none names "
                        f"{self._learner}")  # fmt: skip
        if len(rounds) > _MOST:
            said.append(f"the first {_MOST} rounds are listed")
        later = sorted([*rounds[:_MOST], *self.following], key=lambda seen: seen.time)
        steps = [_step("firing", self.cause)] if self.cause else []
        steps.append(_step("update", update))
        steps += (_step("update" if each in self.following else "round", each) for each in later)
        return Path(steps, None, _sentences(said, reading), sources)

    def _sources(self) -> tuple[list[Step], list[str]]:
        """The rounds that sampled the rows that the firing claims, and what is not known of it."""
        if self.cause is None:
            return [], ["which firing caused it is not known"]
        claims = self.cause.line.get("claims", ())
        if not claims:
            return [], [
                "its firing claims no rows: those that samplers draw are not listed one by one"
            ]
        found: dict[tuple[int, float, int], tuple[_Seen, list[list[int]]]] = {}
        unknown = dict[str, None]()
        for actor, begin, end, *_env in claims:
            parts = self._sampled.of(actor, begin, end)
            if sum(each.end - each.begin for each in parts) < end - begin:
                unknown[f"actor {actor}"] = None
            for each in parts:
                place = actor, each.seen.time, _end(each.seen.line) or 0
                _, rows = found.setdefault(place, (each.seen, []))
                if [each.begin, each.end] not in rows:
                    rows.append([each.begin, each.end])
        said = (
            [f"which rounds of {', '.join(unknown)} sampled all of its rows is not known"]
            if unknown
            else []
        )
        if len(found) > _MOST:
            said.append(f"the first {_MOST} rounds of its rows are listed")
        steps = [_step("round", seen, claimed=rows) for seen, rows in found.values()]
        return sorted(steps, key=lambda step: step.end)[:_MOST], said


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


def _step(what: str, seen: _Seen, **more: Any) -> Step:
    line, end = seen
    facts = {name: value for name, value in line.items() if name not in _TOLD} | more
    return Step(what, line.get("by", "triggers"), end - line.get("seconds", 0.0), end, facts)


def _sentences(said: list[str], reading: Reading) -> str:
    if reading.damaged:
        said = [*said, f"{reading.damaged:,} damaged lines near it are left out"]
    return "; ".join(dict.fromkeys(said))
