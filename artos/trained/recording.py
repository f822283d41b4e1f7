"""Records a data set: whole episodes that a run's policy plays, row by row as its actors write."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from artos.actors.context import ActorContext
from artos.buffer.actor_block import ActorBlock
from artos.buffer.layout import BlockSpec
from artos.buffer.shm_folder import ShmFolder
from artos.errors import DeadlineExceeded, Refused
from artos.protocol.invocations import Invoke
from artos.runs.data_sets import see_free, write
from artos.runs.plan import Plan
from artos.specs.contracts import Actor
from artos.specs.keys import AGES_KEY, VALID_KEY, DataKey
from artos.trained.evaluation import Note
from artos.trained.playing import playing_faults
from artos.trained.record import Record

if TYPE_CHECKING:
    from artos.trained.trained import Trained

_ROUND = 64
"""Rows that are sampled at a time."""

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Asked:
    """The arguments of ``Trained.record``."""

    path: Path
    episodes: int
    greedy: bool
    seed: int
    deadline: float

    def faults(self) -> Iterator[str]:
        """Everything that is wrong with it, but for the path."""
        return playing_faults(self.episodes, self.seed, self.deadline)


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """A data set that was written."""

    path: str
    rows: int
    """With those that only hold last observations."""
    returns: tuple[float, ...]
    """Sums of rewards as they are stored, one for each episode."""
    keys: tuple[str, ...]

    @property
    def mean_return(self) -> float:
        """Mean of the returns."""
        return float(np.mean(self.returns))


class _Player:
    """The run's actor, with a block of its own."""

    def __init__(self, trained: Trained, record: Record, asked: Asked, block_at: Path) -> None:
        workload = record.workload()
        self._actor: Actor = workload.actor
        self._actor.final_observations = True  # also where the run's learner needed none
        self.keys = (*self._actor.data_keys(),)
        if lacks := {"rewards", VALID_KEY, AGES_KEY}.difference(key.name for key in self.keys):
            who, what = type(self._actor).__name__, ", ".join(sorted(lacks))
            raise Refused([f"{who} does not write {what}: no trigger draws from rows without"])
        plan = Plan(
            reference=record.reference, name=workload.name, env=self._actor.env, seed=asked.seed,
            actors=1, envs=self._actor.envs, steps=_ROUND, capacity=_ROUND, on_full="overwrite",
            total_steps=workload.total_steps, data_keys=self.keys, objects=(), layout=(),
            triggers={}, methods={},
        )  # fmt: skip
        spec = BlockSpec(0, self.keys, _ROUND, self._actor.envs, (), "overwrite")
        self._block = ActorBlock.create(block_at, spec)
        self._progress, self._steps = trained.progress, trained.steps
        self._actor.setup(ActorContext(plan, 0, 1, self._block, asked.seed, asked.greedy))
        version, params = record.manifest.version, trained.params
        self._actor.bound = replace(trained.bound, params=params)
        self._actor.bind(params, version)

    def sample(self) -> Arrays:
        """The next rows by data key, (_ROUND, environments, *shape)."""
        start = self._block.allocate(_ROUND)
        call = Invoke(
            0, "actors.sample", "sample", (), start + _ROUND, True, self._progress, self._steps
        )
        self._actor.sample(start, _ROUND, call)
        self._actor.episodes()
        self._block.commit(start + _ROUND)
        return {key.name: self._block.arrays[key.name].copy() for key in self.keys}

    def close(self) -> None:
        """Close the environments."""
        self._actor.close()


class _Column:
    """What one environment has played: rows of the episode under way, and whole episodes."""

    def __init__(self, env: int, keys: Sequence[DataKey], wanted: int) -> None:
        self._env, self._keys, self.wanted = env, keys, wanted
        self.episodes: list[Arrays] = []
        self._parts: list[Arrays] = []

    @property
    def complete(self) -> bool:
        """Whether it has all episodes that are wanted of it."""
        return len(self.episodes) == self.wanted

    def add(self, rows: Arrays) -> None:
        """Cut rows, which follow those before, after the last observation of each episode."""
        ends = np.flatnonzero(~rows[VALID_KEY][:, self._env]) + 1
        at = 0
        for end in (*ends.tolist(), len(rows[VALID_KEY])):
            if self.complete:
                return
            span = slice(at, end)
            self._parts.append({
                key.name: rows[key.name][span, self._env] if key.per_env else rows[key.name][span]
                for key in self._keys
            })  # fmt: skip
            if end in ends:
                self.episodes.append(_joined(self._parts))
                self._parts = []
            at = end


def record(trained: Trained, found: Record, asked: Asked, note: Note) -> Recorded:
    """Play and write, as ``Trained.record`` describes, and raises, it."""
    if faults := list(asked.faults()):
        raise Refused(faults)
    see_free(asked.path)
    folder = ShmFolder.create("record")
    try:
        with closing(_Player(trained, found, asked, folder.path / "actor-0")) as player:
            episodes = _played(player, trained.environments, asked, note)
    finally:
        folder.remove()
    rows = _joined(episodes)
    write(asked.path, rows)
    return Recorded(
        path=str(asked.path),
        rows=len(rows[VALID_KEY]),
        returns=tuple(float(each["rewards"][each[VALID_KEY]].sum()) for each in episodes),
        keys=tuple(rows),
    )


def _played(player: _Player, envs: int, asked: Asked, note: Note) -> list[Arrays]:
    """Episode k is the (k // n)-th of environment k % n, as in an ``Evaluation``."""
    columns = [
        _Column(env, player.keys, len(range(env, asked.episodes, envs))) for env in range(envs)
    ]
    over, steps, since = 0, 0, time.monotonic()
    while not all(column.complete for column in columns):
        rows = player.sample()
        for column in columns:
            column.add(rows)
        steps += _ROUND * envs
        if (now := sum(len(column.episodes) for column in columns)) > over:
            over, since = now, time.monotonic()
        elif time.monotonic() - since > asked.deadline:
            raise DeadlineExceeded(
                "the end of an episode: if it has no time limit, this policy may never end it "
                "(wrap it in gymnasium.wrappers.TimeLimit); if its episodes just take long, give "
                "more time",
                asked.deadline,
            )
        note(over, steps)
    return [columns[k % envs].episodes[k // envs] for k in range(asked.episodes)]


def _joined(parts: Sequence[Arrays]) -> Arrays:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
