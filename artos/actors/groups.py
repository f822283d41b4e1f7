"""The actor of algorithms that compare: each group of environments begins a round alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from artos.actors.context import ActorContext
from artos.actors.rollout import RolloutActor
from artos.envs.spec import EnvSpec
from artos.protocol.invocations import Invoke


class GroupActor(RolloutActor):
    """Steps ``groups`` times ``group`` copies of ``env``; neighbours of a group have one seed.

    All of them are reset when a round begins, so each row of a round up to an environment's first
    end belongs to an episode whose beginning the whole group shares. What an environment does in
    the round after that is its own.
    """

    kept: ClassVar[tuple[str, ...]] = (*RolloutActor.kept, "_random")

    def __init__(self, env: str, policy: Callable[[EnvSpec], Any], groups: int, group: int) -> None:
        super().__init__(env, policy, groups * group)
        self.group = group

    def setup(self, context: ActorContext) -> None:
        """Become the actor of ``context``."""
        super().setup(context)
        self._random = np.random.default_rng(context.seed)

    def sample(self, start: int, rows: int, call: Invoke) -> dict[str, float]:
        """Write the rows of a round, in whose first one all episodes begin."""
        seed = int(self._random.integers(2**31))
        self._observations = self._stepper.reset(seed, alike=self.group)
        return super().sample(start, rows, call)
