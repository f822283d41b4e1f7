"""Reads picked rows while their writers continue: copy, check, and replace overwritten rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from artos.buffer.actor_block import ActorBlock
from artos.buffer.doorbell import fence
from artos.buffer.samplers import episodes
from artos.buffer.samplers.batch import BatchStore
from artos.buffer.samplers.frames import Ints, Rows, Sources, look_back
from artos.buffer.samplers.looks import RESERVED, RESERVED_OF_KEY, ROWS, TERMS
from artos.buffer.samplers.n_step import NStep
from artos.errors import Overwritten
from artos.specs.keys import ACHIEVED_KEY, AGES_KEY, VALID_KEY, VERSION_KEY, Padding

if TYPE_CHECKING:
    from artos.buffer.samplers.hindsight import Hindsight

Sample = dict[str, NDArray[Any]]

INDEX = "index"
"""Name under which a sample holds the identity of its rows: (n, 3) int64 of actor, step, env."""
NEXT = "next."
"""Prefix of values of the following row, or with n-step returns of the row to bootstrap from."""
RETURNS, DISCOUNTS = "n_step.returns", "n_step.discounts"
RELABELLED, REACHED_LATER = "relabelled", "reached_later"
"""With hindsight: whether a row got another goal, (n,) bool, and what was achieved later on."""
_TRIES = 64
_REDRAWS = 8
_ANY_VERSION = np.iinfo(np.int64).min


class Picks(NamedTuple):
    """Rows to read: number of the block (not decreasing), absolute step, environment; each (n,)."""

    owners: Ints
    steps: Ints
    envs: Ints


class RowWindow(NamedTuple):
    """Per block the rows that may be picked: ``start`` to ``stop``; each (blocks,) int64."""

    start: Ints
    stop: Ints


class TransitionReader:
    """Copies picked rows of ``keys``, and of ``next_keys`` one row later, into reused arrays.

    Reading works like a sequence lock: rows are copied first and checked afterwards. If their
    writer has reserved their place meanwhile, or is another process now, other rows are picked
    instead, so a torn row is never returned. Rows that the writer, at its present pace, would reach
    before the next check are replaced, too.
    Rows of versions before ``min_version`` are left out; ``stale`` counts them, and the learner's
    role is told of each once.
    With ``run`` each pick stands for that many rows from there on, and values get an axis for them.
    Only rows that have arrived in the keys ``also`` as well are picked.
    With ``hindsight``, which needs ``n_step`` with n=1 and both goals, rows are relabelled.

    Raises:
        UnknownKey: a key that the blocks do not have.
        ValueError: no blocks, blocks of unequal size, or blocks without the final observations of
            episodes that were cut short, where rows ahead are read.
    """

    kept: ClassVar[tuple[str, ...]] = ("min_version", "stale", "_seen", "_left_out", "_hindsight")

    def __init__(
        self,
        blocks: Sequence[ActorBlock],
        keys: Sequence[str],
        next_keys: Sequence[str] = (),
        *,
        n_step: NStep | None = None,
        padding: Padding | None = None,
        run: int = 0,
        also: Sequence[str] = (),
        hindsight: Hindsight | None = None,
    ) -> None:
        self.sources = Sources(blocks, padding)
        self.min_version, self.stale = _ANY_VERSION, 0
        self._keys, self._next, self._n_step = tuple(keys), tuple(next_keys), n_step
        self._store, self._again = BatchStore(), BatchStore()
        self._run, self._width, self._hindsight = run, max(run, 1), hindsight
        cut = n_step.truncated if n_step else (episodes.TRUNCATIONS,) if next_keys else ()
        episodes.refuse_hidden_ends(blocks[0], cut)
        self.selects = VALID_KEY in blocks[0].headers
        marks = (VALID_KEY, AGES_KEY) if episodes.has_marks(blocks[0]) else (VALID_KEY,)
        ahead = (*(n_step.keys if n_step else ()), *(marks if self.selects else ()))
        self._read = tuple(dict.fromkeys((*keys, *next_keys, *ahead, *also, VERSION_KEY)))
        self._back = look_back(blocks[0], self._read)
        self._last = 1 if next_keys or n_step else 0
        self._headers = [[block.headers[name] for name in self._read] for block in blocks]
        self._actors = np.array([block.spec.actor for block in blocks], np.int64)
        self._seen = np.zeros(len(blocks), np.int64)  # oldest readable rows at the last draw
        self._left_out = np.zeros(len(blocks), np.int64)  # rows before are known to be stale

    def window(self) -> RowWindow:
        """The rows to pick from: committed in all keys, not being overwritten, new enough."""
        # Oldest rows are read first: however far writers get meanwhile, some rows are left.
        self._seen, stop = self._oldest(), self._committed()
        start = np.minimum(np.maximum(self._seen, self._readable(stop)), stop)
        if self.min_version != _ANY_VERSION:
            pairs = zip(self.sources.blocks, start.tolist(), stop.tolist(), strict=True)
            recent = np.array(
                [first_of_version(block, a, b, self.min_version) for block, a, b in pairs], np.int64
            )
            self.stale = int((recent - start).sum()) * self.sources.envs
            fresh = np.maximum(recent - np.maximum(start, self._left_out), 0)
            if (drawn := self.sources.blocks[0].drawn) is not None:
                drawn.stale += int(fresh.sum()) * self.sources.envs
            # Rows that are void come once more.
            self._left_out = np.minimum(np.maximum(self._left_out, recent), stop)
            start = recent
        return RowWindow(start, np.maximum(start, stop - self._last))

    def transitions(self, picks: Picks) -> NDArray[np.bool_]:
        """Which picks, (n,), can be learned from; all of them unless it ``selects``."""
        ahead = self._last > 0 or self._run > 1
        return episodes.transitions(Rows(self.sources, *picks), ahead=ahead)

    def learned(self, sample: Sample, counted: NDArray[np.bool_] | None = None) -> Sample:
        """Note the actors and versions of the rows that a learner gets; returns the sample.

        ``counted``, (n, run), says which rows of each pick the learner is to learn from.
        """
        drawn = self.sources.blocks[0].drawn
        if drawn is not None:
            versions = sample[VERSION_KEY].reshape(len(sample[INDEX]), -1)
            actors = np.broadcast_to(sample[INDEX][:, :1], versions.shape)
            rows = slice(None) if counted is None else counted
            drawn.note(actors[rows].reshape(-1), versions[rows].reshape(-1))
        return sample

    def bound_lag(self, max_lag: int, version: int | None) -> None:
        """Leave out rows more than ``max_lag`` versions older than ``version`` (or the newest)."""
        newest = 0 if version is None else version
        for block in self.sources.blocks if version is None else ():
            if stop := block.committed((VERSION_KEY,)):
                newest = max(newest, int(block.arrays[VERSION_KEY][block.index(stop - 1)]))
        self.min_version = newest - max_lag

    def read(self, count: int, draw: Callable[[int], Picks]) -> Sample:
        """Copy ``count`` rows that ``draw`` picks; it picks others for those that were overwritten.

        Returns:
            values by key, ``next.KEY``, ``index`` (n, 3) int64 and ``policy_version`` (n,) int64,
            in arrays that the next call uses again.

        Raises:
            Overwritten: the writers kept lapping the reader.
        """
        terms = self.terms()
        picks = draw(count)
        out = self._arrays(count * self._width, self._store)
        self._fill(out, picks)
        ahead = np.zeros_like(self._seen)
        for _ in range(_TRIES):
            looked, former, terms = self._oldest(), terms, self.terms()
            void = (terms != former)[picks.owners]
            if not (void | self._gone(picks, out[VERSION_KEY], looked)).any():
                if self._hindsight is not None:
                    self._hindsight.relabel(out)
                return self._named(out, picks)
            # What is raised if this goes on: the row of which the writer was furthest ahead.
            last = int(np.argmin(picks.steps - looked[picks.owners]))
            owner, step = int(picks.owners[last]), int(picks.steps[last])
            lost = Overwritten(int(self._actors[owner]), step, int(looked[owner]))
            # Also rows that would be gone at the next check, or a fast writer always gets ahead.
            ahead = np.minimum(
                2 * np.maximum(ahead, looked - self._seen), self.sources.capacity // 2
            )
            places = np.flatnonzero(void | self._gone(picks, out[VERSION_KEY], looked + ahead))
            self._replace(out, picks, places, _from(looked + ahead, draw, len(places)))
        raise lost

    def _replace(self, out: Sample, picks: Picks, places: Ints, fresh: Picks) -> None:
        copied = self._arrays(len(places) * self._width, self._again)
        self._fill(copied, fresh)
        rows = (places[:, None] * self._width + np.arange(self._width)).ravel()
        for name, array in copied.items():
            out[name][rows] = array
        for column, values in zip(picks, fresh, strict=True):
            column[places] = values

    def _gone(self, picks: Picks, versions: Ints, oldest: Ints) -> NDArray[np.bool_]:
        stale = versions[:: self._width] < self.min_version
        return (picks.steps < oldest[picks.owners]) | stale

    def _committed(self) -> Ints:
        written = [min([header.written for header in headers]) for headers in self._headers]
        fence()
        return self._looked(ROWS, written)

    def _oldest(self) -> Ints:
        # Versions travel in the first stage, so no other key is reserved further.
        fence()  # all rows were copied before this check
        reserved = [block.headers[VERSION_KEY].reserved for block in self.sources.blocks]
        fence()
        return self._readable(self._looked(RESERVED, reserved))

    def oldest(self, owner: int, name: str) -> int:
        """The oldest step of a key of one block that is certainly not being overwritten."""
        reserved = self._looked(
            RESERVED_OF_KEY, [self.sources.blocks[owner].headers[name].reserved]
        )
        return max(0, int(reserved[0]) - self.sources.capacity)

    def terms(self) -> Ints:
        """The present term of each block, (blocks,): in a new one its rows may be others."""
        # Void rows are written again without being reserved again.
        return self._looked(TERMS, [block.incarnation for block in self.sources.blocks])

    def _looked(self, what: int, counts: list[int]) -> Ints:
        if (drawn := self.sources.blocks[0].drawn) is not None:
            counts = drawn.looked(what, counts, self._actors)
        return np.array(counts, np.int64)

    def _readable(self, reserved: Ints) -> Ints:
        lost = reserved - self.sources.capacity
        # The very first rows begin an episode: their stacks reach no further back.
        first: Ints = np.where(lost > 0, lost + self._back, 0)
        return first

    # -- arrays --------------------------------------------------------------------------------

    def _arrays(self, count: int, store: BatchStore) -> Sample:
        out: Sample = {}
        names = {name: name for name in (*self._keys, VERSION_KEY)}
        names |= {NEXT + name: name for name in self._next}
        for use, name in names.items():
            key = self.sources.key(name)
            lead = (count, key.stack) if key.stack > 1 else (count,)
            out[use] = store.array(use, (*lead, *key.shape), key.dtype)
        if self._n_step:
            for name in (RETURNS, DISCOUNTS):
                out[name] = store.array(name, (count,), np.float32)
        if self._hindsight is not None:
            goal = self.sources.key(ACHIEVED_KEY)
            out[RELABELLED] = store.array(RELABELLED, (count,), np.bool_)
            out[REACHED_LATER] = store.array(REACHED_LATER, (count, *goal.shape), goal.dtype)
        return out

    def _fill(self, out: Sample, picks: Picks) -> None:
        owners, steps, envs = picks
        if self._width > 1:
            steps = (steps[:, None] + np.arange(self._width)).ravel()
            owners, envs = (np.repeat(column, self._width) for column in (owners, envs))
        rows = Rows(self.sources, owners, steps, envs)
        for name in (*self._keys, VERSION_KEY):
            rows.take(name, out[name])
        if not self._last:
            return
        steps = rows.steps + 1
        committed = self._committed()[rows.owners]
        if self._n_step:
            found = self._n_step.look_ahead(rows, committed)
            out[RETURNS][:], out[DISCOUNTS][:] = found.returns, found.discounts
            steps = found.steps
        later = Rows(self.sources, rows.owners, steps, rows.envs)
        for name in self._next:
            later.take(name, out[NEXT + name])
        if self._hindsight is not None:
            self._hindsight.draw(out, rows, committed)

    def _named(self, out: Sample, picks: Picks) -> Sample:
        index = self._store.array(INDEX, (len(picks.steps), 3), np.int64)
        index[:, 0] = self._actors[picks.owners]
        index[:, 1], index[:, 2] = picks.steps, picks.envs
        named = {**out, INDEX: index}
        if self._run:
            for name in named.keys() - {INDEX}:
                named[name] = named[name].reshape(-1, self._run, *named[name].shape[1:])
        return named

    def __repr__(self) -> str:
        return f"<TransitionReader of {len(self.sources.blocks)} blocks: {', '.join(self._read)}>"


def _from(first: Ints, draw: Callable[[int], Picks], count: int) -> Picks:
    """Draw ``count`` rows, ordered by block, if possible none before ``first`` (blocks,)."""
    picks = draw(count)
    for _ in range(_REDRAWS):
        early = np.flatnonzero(picks.steps < first[picks.owners])
        if not len(early):
            break
        for column, values in zip(picks, draw(len(early)), strict=True):
            column[early] = values
    order = np.argsort(picks.owners, kind="stable")
    return Picks(*(column[order] for column in picks))


def first_of_version(block: ActorBlock, start: int, stop: int, version: int) -> int:
    """The first step from ``start`` whose policy version is at least ``version``, else ``stop``.

    Versions never decrease along a block, so this is a binary search.
    """
    at = start
    for view in block.views(VERSION_KEY, start, stop):
        found = int(np.searchsorted(view, version))
        at += found
        if found < len(view):
            break
    return at
