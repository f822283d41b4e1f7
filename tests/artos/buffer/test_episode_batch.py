"""Whole episodes as rows, padded, and one by one, against plain lists; estimates on them."""

from __future__ import annotations

import numpy as np
import pytest
from buffer_helpers import KEYS, History, new_block, temporary_folder
from hypothesis import given, settings
from hypothesis import strategies as st

from artos import advantages, discounted, n_step_returns, vtrace
from artos.buffer.episode_ends import EpisodeEnds
from artos.buffer.samplers.episode_batch import EpisodeBatch
from artos.errors import Overwritten, UnknownKey
from artos.protocol.invocations import Claim
from artos.specs.keys import VALID_KEY, VERSION_KEY, DataKey

VALID = DataKey(VALID_KEY, (), "bool")


@settings(max_examples=40)
@given(
    actors=st.integers(1, 2), envs=st.integers(1, 3), resets=st.booleans(),
    rounds=st.lists(st.integers(1, 9), min_size=3), seed=st.integers(0, 99),
)  # fmt: skip
def test_it_equals_plain_lists(
    actors: int, envs: int, rounds: list[int], resets: bool, seed: int
) -> None:
    """Across the wrap too: the block is as long as its rows, from which it begins in the middle."""
    with temporary_folder() as path:
        made, claims, names = {}, [], [key.name for key in KEYS] + [VERSION_KEY]
        for actor in range(actors):
            keys = (*KEYS, VALID) if resets else KEYS
            block = new_block(path, keys, sum(rounds), actor=actor, envs=envs)
            made[actor], ends = History(block, 0.4, seed), EpisodeEnds(envs)
            spans = []
            for version, rows in enumerate(rounds):
                made[actor].write(rows, version)
                spans += ends.look(block, block.written)
            assert all(span.whole for span in spans)
            claims += [Claim(actor, span.start, span.stop, span.env) for span in spans]
        if not claims:
            return
        batch = EpisodeBatch({a: history.block for a, history in made.items()}, claims)
        lengths = [claim.stop - claim.start for claim in claims]
        assert batch.lengths.tolist() == lengths
        assert batch.shape == batch.mask.shape == (max(lengths), len(claims))
        assert {*batch} >= {*names}
        for name in names:
            wanted = [
                np.stack([made[c.actor].value(name, s, c.env) for s in range(c.start, c.stop)])
                for c in claims
            ]
            padded = batch.padded(name)
            for one, found, column in zip(
                wanted, batch.episodes(name), padded.swapaxes(0, 1), strict=True
            ):
                np.testing.assert_array_equal(found, one)
                np.testing.assert_array_equal(column[: len(one)], one)
                assert not column[len(one) :].any()
            np.testing.assert_array_equal(batch[name], np.concatenate(wanted))
            np.testing.assert_array_equal(batch.flat(padded), batch[name])
        np.testing.assert_array_equal(batch.versions(), batch[VERSION_KEY])
        with pytest.raises(UnknownKey):
            batch["nothing"]


def test_rows_that_were_overwritten_are_not_returned() -> None:
    with temporary_folder() as path:
        block = new_block(path, KEYS, 8)
        history = History(block, 0.0)
        history.write(8)
        batch = EpisodeBatch({0: block}, [Claim(0, 2, 5, 0)])
        assert len(batch["rewards"]) == 3
        history.write(3)
        with pytest.raises(Overwritten):
            batch["rewards"]


def test_estimates_of_padded_episodes_are_those_of_each_by_itself() -> None:
    """Of lengths 5, 1 and 3; the second is truncated, the others terminate."""
    rng, lengths = np.random.default_rng(1), (5, 1, 3)
    longest = max(lengths)

    def padded(values: list[np.ndarray]) -> np.ndarray:
        return np.stack([np.pad(v, (0, longest - len(v))) for v in values], axis=1)

    rewards, values, ratios = (
        [rng.normal(size=length).astype(np.float32) for length in lengths] for _ in range(3)
    )
    ends = [np.arange(length) == length - 1 for length in lengths]
    over, cut = [ends[0], ~ends[1], ends[2]], [~e & False for e in ends]
    cut[1] = ends[1]
    after = [np.where(c, np.float32(2.0), np.float32(0)) for c in cut]
    single = [*zip(rewards, values, after, over, cut, strict=True)]

    def check(found: np.ndarray, wanted: list[np.ndarray]) -> None:
        np.testing.assert_allclose(found, padded(wanted), rtol=1e-5)

    whole = [padded([*column]) for column in zip(*single, strict=True)]
    alone = [[part[None, :, None] for part in each] for each in single]
    gae = [advantages(*each, 0.9, 0.8)[0][0, :, 0] for each in alone]
    check(advantages(*whole, 0.9, 0.8)[0], gae)
    traced = [
        vtrace(ratio[None, :, None], *each, 0.9)[1][0, :, 0]
        for ratio, each in zip(ratios, alone, strict=True)
    ]
    check(vtrace(padded(ratios), *whole, 0.9)[1], traced)

    for n in (1, 2, 4, 9):
        returns = [n_step_returns(*each, 0.9, n)[0, :, 0] for each in alone]
        check(n_step_returns(*whole, 0.9, n), returns)
    summed = [
        np.array([sum(0.9**k * r for k, r in enumerate(each[t:])) for t in range(len(each))])
        for each in rewards
    ]
    check(discounted(padded(rewards), 0.9), summed)
