"""Plays with a run's actor alone: in this process, into a block of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from artos.actors.context import ActorContext
from artos.buffer.actor_block import ActorBlock
from artos.buffer.desk import Desk
from artos.buffer.layout import BlockSpec
from artos.errors import Refused
from artos.protocol.invocations import Invoke
from artos.runs.plan import Plan
from artos.specs.bound import Bound
from artos.specs.contracts import Actor, Wrote
from artos.specs.keys import DataKey
from artos.trained.evaluation import During

ROUND = 64
"""Rows that are played at a time."""


class _NoDesks(dict[str, Sequence[Desk]]):
    """No server is at work."""

    def __missing__(self, name: str) -> Sequence[Desk]:
        raise Refused([_NOBODY.format(name)])


class Alone:
    """An actor that is set up with a new block in the file ``at``, and the weights ``bound``.

    Raises:
        Refused: it asks a server.
    """

    def __init__(
        self, actor: Actor, bound: Bound, during: During, seed: int, *, greedy: bool, at: Path
    ) -> None:
        assert bound.params is not None  # they are what is played
        self._actor, self._bound, self._during = actor, bound, during
        self.keys = (*actor.data_keys(),)
        """What it writes, but for versions."""
        plan = Plan(
            reference=during.reference, name=during.name, env=actor.env, seed=seed, actors=1,
            envs=actor.envs, steps=ROUND, capacity=ROUND, on_full="overwrite",
            total_steps=during.total_steps, data_keys=self.keys, objects=(), layout=(),
            triggers={}, methods={},
        )  # fmt: skip
        others = [part.versions for part in actor.parts.values()][1:]
        noted = (DataKey(name, (), "int64", 1, False) for name in others)
        spec = BlockSpec(0, (*self.keys, *noted), ROUND, actor.envs, (), "overwrite")
        self.block = ActorBlock.create(at, spec)
        actor.setup(
            ActorContext(plan, 0, 1, self.block, seed, greedy, _NoDesks(), learned_from=False)
        )

    def sample(self) -> int:
        """Have it play a round, for which the weights are bound; returns how many rows it wrote.

        These are up to ``ROUND``, the last ones of the block.
        """
        assert self._bound.params is not None
        self._actor.bound = self._bound
        self._actor.bind(self._bound.params, self._bound.version)
        start = self.block.allocate(ROUND)
        call = Invoke(
            0, "actors.sample", "sample", (), start + ROUND, True, self._during.progress,
            self._during.steps,
        )  # fmt: skip
        told = self._actor.sample(start, ROUND, call)
        rows = told.rows if isinstance(told, Wrote) else ROUND
        self.block.commit(start + rows)
        return rows

    def newest(self, key: str, rows: int) -> NDArray[Any]:
        """A copy of the last ``rows`` rows of a data key, at most as many as the block has."""
        stop = self.block.written
        return np.concatenate(self.block.views(key, stop - rows, stop))

    def close(self) -> None:
        """Close the environments."""
        self._actor.close()


_NOBODY = (
    "the actor asks the server {0!r}, which answers only while a run goes: rows of a run are in "
    "its checkpoint with --set checkpoint=all, if its learner draws rows"
)
