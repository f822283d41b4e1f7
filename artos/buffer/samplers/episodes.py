"""Where episodes end in a block: which rows are transitions, and which have a successor."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from artos.buffer.actor_block import ActorBlock
from artos.buffer.samplers.frames import Ints, Rows
from artos.specs.keys import AGES_KEY, VALID_KEY

TRUNCATIONS = "truncations"


def refuse_hidden_ends(block: ActorBlock, truncated: Sequence[str]) -> None:
    """See that the row after a truncated one, per the keys ``truncated``, is its successor.

    Raises:
        ValueError: that row begins the next episode; says what to change.
    """
    hidden = [name for name in truncated if name in block.headers]
    if hidden and VALID_KEY not in block.headers:
        raise ValueError(
            f"rows have the key {hidden[0]!r}, but final observations are in no row, so truncated "
            "episodes would be bootstrapped from the next ones: give RolloutActor "
            f"final_observations=True, or count {hidden[0]!r} among the keys that terminate: "
            f"n_step=NStep(n=1, gamma=..., terminated=(..., {hidden[0]!r}), truncated=())"
        )


def has_marks(block: ActorBlock) -> bool:
    """Whether rows say where an episode begins, and whether they are transitions."""
    return VALID_KEY in block.headers and AGES_KEY in block.headers


def given_up(rows: Rows, steps: Ints) -> NDArray[np.bool_]:
    """Whether episodes were given up after the rows at ``steps``, (n, m).

    The actor was restarted then: the next row begins another episode though this one had no end.
    """
    ages = np.empty(steps.shape, np.uint8)
    rows.take_at(AGES_KEY, steps + 1, ages)
    begins: NDArray[np.bool_] = ages == 0
    return begins


def last_rows(rows: Rows, committed: Ints) -> Ints:
    """The last row of each one's episode, its final observation included, before ``committed``.

    All are (n,). Episodes are told apart by where ``ages`` is 0.
    """
    last, going_on, first, width = committed - 1, np.arange(len(rows.steps)), rows.steps + 1, 64
    while len(going_on):
        some = Rows(rows.sources, rows.owners[going_on], first, rows.envs[going_on])
        steps = np.minimum(first[:, None] + np.arange(width), last[going_on, None])
        ages = np.empty(steps.shape, np.uint8)
        some.take_at(AGES_KEY, steps, ages)
        begins = ages == 0
        found = begins.any(axis=1)
        last[going_on[found]] = first[found] + begins[found].argmax(axis=1) - 1
        more = ~found & (steps[:, -1] < last[going_on])
        going_on, first, width = going_on[more], first[more] + width, 2 * width
    return last


def transitions(rows: Rows, *, ahead: bool) -> NDArray[np.bool_]:
    """Which rows can be learned from, (n,): no mere resets and, if ``ahead``, with a successor."""
    block = rows.sources.blocks[0]
    valid = np.ones(len(rows.steps), np.bool_)
    if VALID_KEY in block.headers:
        rows.take(VALID_KEY, valid)
    if ahead and has_marks(block):
        valid &= ~given_up(rows, rows.steps[:, None])[:, 0]
    return valid
