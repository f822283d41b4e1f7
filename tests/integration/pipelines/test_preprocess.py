"""Advantages computed when rewards come are those used, as long as the rows are the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hands import Hands, only

from artos.protocol.invocations import Claim
from artos.specs.keys import poison
from triggers.algorithms.pipelines import FIRST, stages


def test_an_update_uses_what_was_computed_before(tmp_path: Path) -> None:
    """Rewards are gone by then, and nobody misses them."""
    with Hands(tmp_path, pipeline="dual") as plain:
        plain.fire("update", *plain.sample())
        wanted = only(plain.gradients)
    with Hands(tmp_path, pipeline="dual") as early:
        claims = early.sample()
        for claim in claims:
            early.fire("preprocess", claim)
            poison(early.node.blocks[claim.actor].arrays["rewards"])
        early.fire("update", *claims)
        np.testing.assert_array_equal(only(early.gradients), wanted)


@pytest.mark.parametrize("lost", [(0,), (1, 2), (0, 1, 2)], ids=str)
def test_rows_of_another_incarnation_are_preprocessed_again(
    lost: tuple[int, ...], tmp_path: Path
) -> None:
    """Only rewards had come when the actor was placed anew: the rows it samples now are others."""

    def again(early: Hands) -> None:
        for actor in lost:
            early.node.blocks[actor].begin_incarnation()
            early.node.blocks[actor].arrays["rewards"][...] *= 3.0

    with Hands(tmp_path, pipeline="dual") as plain:
        claims = plain.sample()
        again(plain)
        plain.fire("update", *claims)
        wanted = only(plain.gradients)
    with Hands(tmp_path, pipeline="dual") as early:
        claims = early.sample()
        for claim in claims:
            early.fire("preprocess", claim)
        again(early)
        early.fire("update", *claims)
        np.testing.assert_array_equal(only(early.gradients), wanted)


def test_rows_taken_back_are_not_preprocessed(tmp_path: Path) -> None:
    """The actor was placed anew while its rows waited for the learner, and sampled them again."""
    with Hands(tmp_path, pipeline="dual") as plain:
        plain.fire("update", *plain.sample())
        wanted = only(plain.gradients)
    with Hands(tmp_path, pipeline="dual") as early:
        claims = early.sample()
        block = early.node.blocks[1]
        block.commit(claims[1].start)
        block.begin_incarnation()
        rewards = block.arrays["rewards"].copy()
        poison(block.arrays["rewards"])
        for claim in claims:
            early.fire("preprocess", claim)
        block.arrays["rewards"][...] = rewards
        block.commit(claims[1].stop)
        early.fire("update", *claims)
        np.testing.assert_array_equal(only(early.gradients), wanted)


def test_the_first_stage_alone_is_enough(tmp_path: Path) -> None:
    """Observations and actions are still on their way: their cursors stand where they stood."""
    with Hands(tmp_path, pipeline="dual") as early:
        claims = early.sample()
        first, second = stages([key.name for key in early.plan.data_keys])
        for actor, block in early.node.blocks.items():
            for name in second:
                block.headers[name].set_written(claims[actor].start)
                poison(block.arrays[name])
        for claim in claims:
            assert early.fire("preprocess", claim).version == 0
        pairs = [early.ppo._advantages._entries[claim].pair for claim in claims]
    assert set(first) <= set(FIRST)
    assert "observations" in second
    assert np.isfinite(np.array(pairs)).all()


def test_updates_without_advantages_in_advance_keep_none(tmp_path: Path) -> None:
    with Hands(tmp_path, pipeline="dual") as plain:
        plain.fire("update", *plain.sample())
        assert plain.ppo._advantages.beside(Claim(0, 0, 16)) == ()
        assert repr(plain.ppo._advantages) == "<AdvantageCache 0 claims>"
