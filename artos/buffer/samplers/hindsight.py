"""Goals that were reached later in place of those that were wanted (HER)."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from artos.buffer.samplers.episodes import last_rows
from artos.buffer.samplers.frames import Ints, Rows
from artos.buffer.samplers.transitions import (
    DISCOUNTS,
    NEXT,
    REACHED_LATER,
    RELABELLED,
    RETURNS,
    Sample,
)
from artos.specs.keys import ACHIEVED_KEY, DESIRED_KEY


class Goals(Protocol):
    """What an environment says of goals, both (n, *shape), as rows store them."""

    def rewards(self, reached: NDArray[Any], wanted: NDArray[Any]) -> NDArray[np.float32]:
        """What is paid, (n,), where that was reached and this was wanted."""

    def terminations(self, reached: NDArray[Any], wanted: NDArray[Any]) -> NDArray[np.bool_] | None:
        """Whether the episode is over then, (n,); None if goals do not decide that."""


class Hindsight:
    """Relabels a ``share`` of drawn transitions: strategy "future" of HER.

    The goal becomes what was achieved in a later row of the same episode, each equally likely, its
    final observation included; an episode that is not over reaches as far as its rows
    (Andrychowicz et al. 2017, §4.5). Reward and termination are then what ``goals`` says. A
    termination that did not come from the goal that was wanted stays.
    """

    kept: ClassVar[tuple[str, ...]] = ("_rng",)

    def __init__(self, share: float, goals: Goals, gamma: float, seed: int | None) -> None:
        self._share, self._goals, self._gamma = share, goals, gamma
        self._rng = np.random.default_rng(seed)

    def draw(self, out: Sample, rows: Rows, committed: Ints) -> None:
        """Choose among ``rows``, (n,), and what they reached later, before row ``committed``."""
        chosen = self._rng.random(len(rows.steps)) < self._share
        ahead = last_rows(rows, committed) - rows.steps
        # A row that is being overwritten may seem to have none; it is replaced by another one.
        later = (self._rng.random(len(ahead)) * np.maximum(ahead, 1)).astype(np.int64) + 1
        out[RELABELLED][:] = chosen
        rows.take_at(ACHIEVED_KEY, (rows.steps + later)[:, None], out[REACHED_LATER])

    def relabel(self, out: Sample) -> None:
        """Give the chosen rows their goals, and what these make of reward and discount."""
        at = np.flatnonzero(out[RELABELLED])
        if not len(at):
            return
        reached, goals = out[NEXT + ACHIEVED_KEY][at], out[REACHED_LATER][at]
        over = out[DISCOUNTS][at] == 0
        if (terminated := self._goals.terminations(reached, goals)) is not None:
            stays, ended = np.zeros_like(over), np.flatnonzero(over)
            if len(ended):
                wanted = out[DESIRED_KEY][at[ended]]
                by_goal = self._goals.terminations(reached[ended], wanted)
                stays[ended] = ~np.asarray(by_goal)
            over = terminated | stays
        out[DISCOUNTS][at] = np.where(over, 0.0, self._gamma)
        out[RETURNS][at] = self._goals.rewards(reached, goals)
        out[DESIRED_KEY][at] = out[NEXT + DESIRED_KEY][at] = goals
