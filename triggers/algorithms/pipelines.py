"""Ways to overlap sampling, transfer and learning, as rows of a trigger table (paper §4.4).

These rows need a learner with the methods of ``artos.PipelinedPPO``; an update works whether or not
the other methods were fired. On one machine a transfer only moves a cursor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from triggers import DataKeyTrigger, TransferTrigger
from triggers.table import Table

Pipeline = Literal["none", "dual", "minibatch", "dual+minibatch", "full"]
"""``dual``: the keys that advantages are made of travel first, and advantages are computed early.

``minibatch``: the first epoch begins with the actors whose rows came first. ``full``: the gradient
of the full batch is added up as rows come; it needs all advantages and therefore contains ``dual``.
"""

FIRST = (
    "rewards", "values", "log_probs", "bootstraps", "terminations", "truncations", "valid",
)  # fmt: skip
"""The first stage. ``bootstraps`` holds the value of the last observation, which comes later."""


def stages(keys: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Data keys in two stages: those of ``FIRST``, then observations, actions and all others."""
    first = tuple(key for key in keys if key in FIRST)
    return first, tuple(key for key in keys if key not in first)


def learner_rows(
    pipeline: Pipeline, keys: Sequence[str], size: int, n: int = 1, max_lag: int = 0
) -> Table:
    """The rows of a table that hand ``size`` rows of each actor to the learner.

    A minibatch of the first epoch is made of the rows of ``n`` actors. Methods that run before
    ``learner.update`` claim rows of their own, which are kept until the update is done with them.
    """
    everything = tuple(keys)
    first, second = stages(everything)
    early: Table = {}
    if pipeline in ("dual", "dual+minibatch", "full"):
        whole = None if pipeline == "full" else 1
        early["transfer"] = TransferTrigger((first, second), size=size)
        early["learner.preprocess"] = DataKeyTrigger(first, n=whole, size=size)
    if pipeline in ("minibatch", "dual+minibatch"):
        early["learner.first_pass"] = DataKeyTrigger(everything, n=n, size=size)
    if pipeline == "full":
        early["learner.accumulate"] = DataKeyTrigger(everything, n=1, size=size)
    return {**early, "learner.update": DataKeyTrigger(everything, size=size, max_lag=max_lag)}
