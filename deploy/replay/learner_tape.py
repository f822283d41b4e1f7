"""A tape that is played: the learner of a replay is told what the one of the run saw."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from pdb import Pdb
from shutil import copyfile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from artos.buffer.object_region import ObjectRegion
from artos.buffer.samplers.looks import ROWS
from artos.protocol.invocations import Invoke
from artos.runs.tape import (
    UNCHANGED,
    Begun,
    Called,
    Looked,
    Peer,
    Published,
    Recorded,
    Threads,
    all_beside,
)
from artos.runtime.taping import Cores, State, Tape, checksum
from deploy.replay.difference import Difference, Differs, Killed, Left, Over


class Following:
    """Where a replay is to stop, and what goes with each version that is made in it."""

    def __init__(
        self,
        published: Callable[[int], None],
        reach: Callable[[Mapping[int, int]], None],
        state: Callable[[str, int], dict[str, NDArray[Any]]],
        until: int | None = None,
        stop: int | None = None,
    ) -> None:
        self.published, self.reach, self.state = published, reach, state
        self.until, self.stop = until, stop
        self.verified, self.newest = 0, -1
        """Versions that came out as they did in the run; the newest of them."""


class Played(Tape):
    """The tape of one process of the learner, and what the next one found (``later``), if any.

    Raises:
        Differs: the learner does something else than in the run.
        Killed: here the process of the run ended.
        Over: the replay was to end here.
    """

    tells = False

    def __init__(
        self, member: str, tape: Recorded, later: Begun | None, following: Following
    ) -> None:
        self._member, self._records, self._later = member, tape.records, later
        self._path, self._ends = tape.path, tape.ends
        self._last = later.version if later else None
        self._following, self._at, self._turn = following, 0, 0
        self._seen: dict[tuple[int, int], list[int]] = {}
        self._version = -1

    def next_call(self, version: int) -> Called | None:
        """The next invocation; None if the process came to no other that counts."""
        if not self.more or version == self._last:
            return None
        record = self._records[self._at]
        if not isinstance(record, Called):
            raise self.differs(f"did not {_WORDS[type(record)]}")
        return record

    def _next(self, kind: type[Any]) -> Any:
        if not self.more:
            raise Killed
        record = self._records[self._at]
        if not isinstance(record, kind):
            raise self.differs(f"did not {_WORDS[type(record)]}, but {_WORDS[kind]}")
        self._at += 1
        return record

    def begins(self, weights: ObjectRegion) -> None:
        """See that it goes on from what the process in the run found."""
        record, self._version = self._next(Begun), weights.version
        if record.version > weights.version:
            raise Over(
                f"{self._path.name} goes on from version {record.version:,} of {self._member}, and "
                f"the tapes before it end at version {weights.version:,}: one of them was cut off"
            )
        found = checksum(weights) if weights.version >= 0 else 0
        if (record.version, record.checksum) != (weights.version, found):
            raise self.differs(f"went on from another version than {record.version}")

    def goes_on(self, priorities: Path) -> None:
        """Put there what the process in the run found."""
        for of_the_last in priorities.parent.glob(f"{priorities.name}*"):
            of_the_last.unlink()
        for name, copy in all_beside(self._path, priorities.name):
            copyfile(copy, priorities.with_name(name))

    def called(self, call: Invoke) -> None:
        """Pass on."""
        self._next(Called)

    def learn(self, method: Callable[..., Any], learner: Any, batch: Any, call: Invoke) -> Any:
        """Stop in a debugger before that, if it is the invocation that makes a certain version."""
        made, at = 0, self._at
        while at < len(self._records) and not isinstance(self._records[at], Called):
            made += isinstance(self._records[at], Published)
            at += 1
        stop = self._following.stop
        if stop is None or not self._version < stop <= self._version + made:
            return method(batch, call)
        debugger, told = Pdb(nosigint=True), list[Any]()

        def update(learner: Any, batch: Any, call: Invoke) -> None:
            told.append(method(batch, call))

        debugger.message(_AT_HAND.format(stop, call.firing))
        # Unlike ``set_trace``, it stops at the first line there whichever Python it is.
        debugger.runcall(update, learner, batch, call)
        if not told:
            raise Left
        return told[0]

    def looked(self, what: int, counts: list[int], actors: NDArray[np.int64]) -> list[int]:
        """What was seen in the run; the rows that were there then are made first."""
        record: Looked = self._next(Looked)
        if record is UNCHANGED:
            seen = self._seen.get((what, len(counts))) or [0] * len(counts)
        elif (record.what, len(record.counts)) != (what, len(counts)):
            raise self.differs("looked at other rows")
        else:
            seen = self._seen[what, len(counts)] = [*record.counts]
        if what == ROWS:
            self._following.reach(dict(zip(actors.tolist(), seen, strict=True)))
        return seen

    def peer(self, name: str, newest: Callable[[], State]) -> dict[str, NDArray[Any]]:
        """What it was given in the run."""
        record: Peer = self._next(Peer)
        if record.learner != name:
            raise self.differs(f"asked for the state of {name} instead of {record.learner}")
        return self._following.state(name, record.version)

    def publishes(self, weights: ObjectRegion) -> None:
        """End where the process did before the version could be seen."""
        if weights.version == self._last:
            raise Killed

    def published(self, weights: ObjectRegion) -> None:
        """Compare the version with that of the run."""
        self._version, following = weights.version, self._following
        told = self.more
        expected = self._next(Published).checksum if told else self._found_later()
        if expected is not None:
            if expected != checksum(weights):
                raise self.differs("made another version")
            following.verified += 1
            following.newest = weights.version
        following.published(weights.version)
        if following.until is not None and weights.version >= following.until:
            raise Over
        if not told:  # a checksum is written before the next version: there was none
            if self._ends and expected is None:
                raise Over(
                    f"{self._path.name} ends before the checksum of version {weights.version:,}: "
                    "it was cut off, or its disk was full"
                )
            raise Killed

    def _found_later(self) -> int | None:
        """The checksum of this version, of which the process did not come to write it."""
        later = self._later
        return later.checksum if later and later.version == self._version else None

    def cores(self, make: Callable[[Callable[[int], None]], Cores]) -> Cores:
        """Compute with as many threads as in the run."""
        self._use_threads()
        return _Turns(self._next_turn)

    def _next_turn(self) -> None:
        self._turn += 1
        self._use_threads()

    def _use_threads(self) -> None:
        while self.more:
            record = self._records[self._at]
            if not isinstance(record, Threads) or record.turn > self._turn:
                return
            self._at += 1
            sys.modules["torch"].set_num_threads(record.threads)

    @property
    def more(self) -> bool:
        """Whether the process did more than what was played so far."""
        return self._at < len(self._records)

    def differs(self, what: str) -> Differs:
        """From what the process did, after the newest version."""
        return Differs(Difference(self._member, what, version=self._version))


class _Turns:
    def __init__(self, turn: Callable[[], None]) -> None:
        self.begin = self.look = turn


_AT_HAND = (
    "version {0} is about to be made (firing {1}): its rows are in batch, the networks in learner; "
    "s steps into the learner's method"
)
_WORDS: dict[type[Any], str] = {
    Begun: "begin",
    Called: "begin an invocation",
    Looked: "look at rows",
    Threads: "change its threads",
    Peer: "ask for the state of another learner",
    Published: "publish a version",
}
