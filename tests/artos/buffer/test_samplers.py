"""Uniform, prioritised, n-step and sequence sampling against plain lists (paper Table 1)."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
from buffer_helpers import KEYS, History, new_block, temporary_folder
from hypothesis import given, settings
from hypothesis import strategies as st
from sampler_helpers import CUT, NAMES, blocks_of, check, histories

from artos.buffer.actor_block import ActorBlock
from artos.buffer.layout import Consumer
from artos.buffer.samplers.n_step import NStep
from artos.buffer.samplers.prioritised import PrioritisedSampler
from artos.buffer.samplers.sequences import SequenceSampler
from artos.buffer.samplers.uniform import UniformSampler
from artos.buffer.shm_folder import ShmFolder
from artos.errors import BadRow, NothingToSample, UnknownKey
from artos.specs.keys import VERSION_KEY, DataKey

sizes = given(
    actors=st.integers(1, 3),
    envs=st.integers(1, 3),
    capacity=st.integers(6, 12),
    rows=st.integers(6, 30),
    padding=st.sampled_from(["zero", "first"]),
    seed=st.integers(0, 99),
)


@settings(max_examples=30)
@sizes
def test_uniform_samples_are_rows_that_were_written(actors, envs, capacity, rows, padding, seed):
    with temporary_folder() as path:
        made = histories(path, actors, envs, capacity, rows, seed)
        options = {"seed": seed, "padding": padding}
        check(UniformSampler(blocks_of(made), NAMES, 20, **options).sample(), made, padding)
        made = histories(path, actors, envs, capacity, rows, seed, final_rows=True)
        sampler = UniformSampler(blocks_of(made), NAMES, 20, next_keys=NAMES, **options)
        for history in made.values():
            history.write(2)
        check(sampler.sample(), made, padding, NAMES)


@settings(max_examples=30)
@sizes
def test_prioritised_samples_are_rows_that_were_written(
    actors, envs, capacity, rows, padding, seed
):
    with temporary_folder() as path:
        made = histories(path, actors, envs, capacity, rows, seed, final_rows=True)
        sampler = PrioritisedSampler(
            blocks_of(made), NAMES, 20, next_keys=NAMES, seed=seed, padding=padding
        )
        rng = np.random.default_rng(seed)
        for turn in range(6):
            sample = sampler.sample()
            check(sample, made, padding, NAMES)
            index = sample["index"].copy()
            for history in list(made.values())[turn % actors :]:
                history.write(int(rng.integers(1, 5)))
            sampler.update(index, rng.random(20))


def test_every_row_that_can_be_read_is_drawn_equally_often(folder: ShmFolder) -> None:
    made = histories(folder.path, 2, 2, 10, 13, chance=0.0, final_rows=True)
    made[1].write(4)
    sampler = UniformSampler(blocks_of(made), NAMES, 500, next_keys=("rewards",), seed=1)
    drawn = np.concatenate([sampler.sample()["index"].copy() for _ in range(40)])
    rows, counts = np.unique(drawn, axis=0, return_counts=True)
    # two rows are kept for the stacks of the oldest, and the newest has no next row yet
    want = [(0, s, e) for s in range(5, 12) for e in (0, 1)]
    want += [(1, s, e) for s in range(9, 16) for e in (0, 1)]
    assert [tuple(row) for row in rows.tolist()] == want
    mean = 20_000 / len(want)
    assert np.abs(counts - mean).max() < 5 * mean**0.5


def test_rows_that_are_no_transitions_are_never_drawn(folder: ShmFolder) -> None:
    keys = (DataKey("valid", (), "bool"), DataKey("rewards"))
    block = new_block(folder.path, keys, 10, envs=2)
    block.allocate(6)
    block.arrays["valid"][:] = False
    block.commit(6)
    samplers = [
        kind({0: block}, ("valid",), 64, seed=0) for kind in (UniformSampler, PrioritisedSampler)
    ]
    for sampler in samplers:
        with pytest.raises(NothingToSample) as caught:
            sampler.sample()
        assert caught.value.rows == 6 * 2
    block.allocate(6)
    block.commit(12)
    for sampler in samplers:
        with pytest.raises(NothingToSample) as caught:
            sampler.sample()
        assert caught.value.rows == 10 * 2
    block.allocate(2)
    block.arrays["valid"][[2, 3], [1, 0]] = True
    block.commit(14)
    for sampler in samplers:
        found = {tuple(row) for row in sampler.sample()["index"].tolist()}
        assert found == {(0, 12, 1), (0, 13, 0)}


@pytest.mark.parametrize("among", [50, 5000])
def test_the_few_rows_that_can_be_learned_from_are_found(folder: ShmFolder, among: int) -> None:
    block = new_block(folder.path, (DataKey("valid", (), "bool"),), among)
    block.allocate(among)
    few = np.arange(3, among, 50)
    block.arrays["valid"][...] = np.isin(np.arange(among), few)[:, None]
    block.commit(among)
    sampler = UniformSampler({0: block}, ("valid",), 256, seed=1)
    drawn = np.concatenate([sampler.sample()["index"][:, 1].copy() for _ in range(20)])
    counts = np.bincount(drawn)[few]
    assert counts.sum() == len(drawn)
    mean = len(drawn) / len(few)
    assert np.abs(counts - mean).max() < 5 * mean**0.5


def test_old_policies_are_left_out_and_counted(folder: ShmFolder) -> None:
    made = histories(folder.path, 2, 2, 30, 20)
    for kind in (UniformSampler, PrioritisedSampler):
        sampler = kind(blocks_of(made), NAMES, 400, seed=0, max_lag=3)
        assert set(sampler.sample()[VERSION_KEY].tolist()) == {16, 17, 18, 19}
        assert sampler.stale == 2 * 2 * 16
        assert set(sampler.sample(version=21)[VERSION_KEY].tolist()) == {18, 19}
        with pytest.raises(NothingToSample):
            sampler.sample(version=100)


def test_sampling_nothing_is_refused(folder: ShmFolder) -> None:
    block = new_block(folder.path, KEYS, 8)
    for kind in (UniformSampler, PrioritisedSampler):
        with pytest.raises(NothingToSample):
            kind({0: block}, NAMES, 4).sample()
        with pytest.raises(UnknownKey):
            kind({0: block}, ("frame",), 4)
    history = History(block)
    history.write(1)
    with pytest.raises(NothingToSample):
        UniformSampler({0: block}, NAMES, 4, n_step=CUT).sample()
    history.write(3)
    with pytest.raises(NothingToSample):
        SequenceSampler({0: block}, NAMES, 4, length=5).sample()


# -- priorities --------------------------------------------------------------------------------


def test_draws_follow_priorities_and_weights_correct_them(folder: ShmFolder) -> None:
    history = histories(folder.path, 1, 2, 10, 5)[0]
    sampler = PrioritisedSampler(
        {0: history.block}, ("rewards",), 1000, seed=3, alpha=0.5, beta=0.7
    )
    index = np.array([(0, step, env) for step in range(5) for env in (0, 1)])
    priorities = np.arange(1.0, 11.0) ** 2 / 10_000
    assert sampler.sample()["weights"].dtype == np.float32
    assert sampler.update(index, priorities) == 10
    counts = np.zeros(10)
    for _ in range(20):
        sample = sampler.sample()
        places = sample["index"][:, 1] * 2 + sample["index"][:, 2]
        counts += np.bincount(places, minlength=10)
        share = np.arange(1.0, 11.0) / 55
        weights = (10 * share[places]) ** -0.7
        np.testing.assert_allclose(sample["weights"], weights / weights.max(), rtol=1e-6)
    np.testing.assert_allclose(counts / counts.sum(), np.arange(1, 11) / 55, atol=2e-3)


def test_new_rows_get_the_highest_priority(folder: ShmFolder) -> None:
    history = histories(folder.path, 1, 1, 20, 4)[0]
    sampler = PrioritisedSampler({0: history.block}, ("rewards",), 4, seed=0, alpha=1.0)
    index = sampler.sample()["index"].copy()
    sampler.update(index, np.array([1.0, 7.0, 2.0, 0.0]))
    history.write(1)
    index = sampler.sample()["index"].copy()
    assert sampler.priorities._tree.leaves[4] == 7.0
    for later in (np.full(4, 0.5), np.zeros(4)):
        sampler.update(index, later)
        history.write(1)
        sampler.sample()
        assert sampler.priorities._tree.leaves[history.block.written - 1] == 7.0, "ever, not last"


def plain_block(folder: ShmFolder, rows: int, *keys: DataKey) -> ActorBlock:
    """A block of eight rows, so many of them committed; their values do not matter."""
    block = new_block(folder.path, keys or (DataKey("rewards"),), 8)
    block.commit(block.allocate(rows) + rows)
    return block


def test_left_out_exponents_are_those_of_schaul_et_al(folder: ShmFolder) -> None:
    sampler = PrioritisedSampler({0: plain_block(folder, 4)}, ("rewards",), 4)
    assert (sampler.priorities.alpha, sampler.priorities.beta) == (0.6, 0.4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(4,), (4, 1)], ids=["flat", "a column"])
def test_priorities_of_any_shape_and_precision_are_kept_as_doubles(
    folder: ShmFolder, dtype: type, shape: tuple[int, ...]
) -> None:
    sampler = PrioritisedSampler({0: plain_block(folder, 4)}, ("rewards",), 4, seed=0)
    index = sampler.sample()["index"]
    given = np.array([0.1, 0.7, 1.3, 2.9], dtype)
    assert sampler.update(index, given.reshape(shape)) == 4
    leaves = sampler.priorities._tree.leaves[index[:, 1]]
    np.testing.assert_array_equal(leaves, given.astype(np.float64) ** 0.6)


def test_rows_that_were_not_seen_yet_get_no_priority(folder: ShmFolder) -> None:
    """The row after the newest one known, which lies where the oldest one did."""
    block = plain_block(folder, 8)
    sampler = PrioritisedSampler({0: block}, ("rewards",), 4, seed=0, alpha=1.0)
    sampler.sample()
    block.commit(block.allocate(1) + 1)
    assert sampler.update(np.array([(0, 8, 0), (0, 7, 0)]), np.array([5.0, 3.0])) == 1
    assert sampler.priorities._tree.leaves[:8].tolist() == [1.0] * 7 + [3.0]


def test_new_rows_that_are_transitions_get_the_power_of_the_highest(folder: ShmFolder) -> None:
    block = plain_block(folder, 2, DataKey("valid", (), "bool"), DataKey("rewards"))
    block.arrays["valid"][:] = True
    block.arrays["valid"][3] = False
    sampler = PrioritisedSampler({0: block}, ("rewards",), 2, seed=0, alpha=0.5)
    sampler.update(sampler.sample()["index"], np.array([9.0, 4.0]))
    block.commit(block.allocate(3) + 3)
    sampler.sample()
    assert sampler.priorities._tree.leaves[:6].tolist() == [3.0, 2.0, 3.0, 0.0, 3.0, 0.0]


def test_rows_overwritten_since_are_ignored(folder: ShmFolder) -> None:
    block = plain_block(folder, 8)
    sampler = PrioritisedSampler({0: block}, ("rewards",), 8, seed=0)
    index = sampler.sample()["index"].copy()
    assert index[:, 1].tolist() == list(range(8)), "equal priorities: one draw a stratum"
    block.allocate(3)
    block.commit(11)
    sampler.sample()
    before = sampler.priorities._tree.leaves.copy()
    assert sampler.update(index, np.full(8, 0.5)) == 5
    np.testing.assert_array_equal(before[:3], sampler.priorities._tree.leaves[:3])
    assert sampler.update(index[:0], np.empty(0)) == 0


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(-5, 9)), max_size=12), st.integers(0, 99))
def test_the_tree_holds_exactly_the_rows_that_can_be_read(moves, seed):
    """Rows come, or (fewer than none) are void, as an actor is placed elsewhere."""
    keys = (DataKey("frames", (2,), "uint8", stack=2), DataKey("ages", (), "uint8"))
    with temporary_folder() as path:
        blocks = {a: new_block(path, keys, 10, actor=a, envs=2) for a in (0, 1)}
        for block in blocks.values():
            block.arrays["ages"][:] = 0
            block.arrays[VERSION_KEY][:] = 0
        sampler = PrioritisedSampler(blocks, ("frames",), 6, next_keys=("frames",), seed=seed)
        for term, (actor, count) in enumerate([(0, 3), *moves], 2):
            if count > 0:
                blocks[actor].commit(blocks[actor].allocate(count) + count)
            else:
                blocks[actor].begin_term(term, max(0, blocks[actor].written + count))
            want = set()
            for a, block in blocks.items():
                lost = block.headers["frames"].reserved - 10
                first = lost + 1 if lost > 0 else 0
                steps = range(first, max(first, block.written - 1))
                want |= {a * 20 + step % 10 * 2 + env for step in steps for env in (0, 1)}
            with nullcontext() if want else pytest.raises(NothingToSample):
                sampler.update(sampler.sample()["index"], np.full(6, 2.0))
            assert set(np.flatnonzero(sampler.priorities._tree.leaves)) == want


@pytest.mark.parametrize("bad", [np.nan, np.inf, -1.0])
def test_a_bad_priority_changes_nothing(folder: ShmFolder, bad: float) -> None:
    history = histories(folder.path, 1, 1, 8, 8)[0]
    sampler = PrioritisedSampler({0: history.block}, ("rewards",), 4, seed=0)
    index = sampler.sample()["index"]
    before = sampler.priorities._tree.leaves.copy()
    with pytest.raises(BadRow) as caught:
        sampler.update(index, np.array([1.0, 2.0, bad, 3.0]))
    fault = caught.value
    assert (fault.key, fault.actor, fault.step) == ("priorities", 0, index[2, 1])
    assert fault.why == f"{bad} is no priority"
    np.testing.assert_array_equal(before, sampler.priorities._tree.leaves)


# -- n-step and sequences ----------------------------------------------------------------------


def plain_n_step(history, step, env, n, gamma):
    total, length = 0.0, 0
    while length < n and step + length < len(history.rows) - 1:
        row = history.rows[step + length]
        total += gamma**length * row["rewards"][env]
        length += 1
        if row["terminations"][env]:
            return total, 0.0, step + length
        if row["truncations"][env]:
            break
    return total, gamma**length, step + length


@settings(max_examples=40)
@given(
    n=st.integers(1, 6),
    capacity=st.integers(5, 12),
    rows=st.integers(5, 30),
    chance=st.sampled_from([0.0, 0.3, 1.0]),
    seed=st.integers(0, 99),
)
def test_n_step_returns_equal_a_plain_loop(n, capacity, rows, chance, seed):
    with temporary_folder() as path:
        made = histories(path, 2, 2, capacity, rows, seed, chance, final_rows=True)
        look = NStep(n=n, gamma=0.9)
        sampler = UniformSampler(
            blocks_of(made), NAMES, 30, next_keys=("frames", "global"), seed=seed, n_step=look
        )
        made[0].block.arrays["rewards"][made[0].block.index(made[0].block.allocate(1))] = np.nan
        sample = sampler.sample()
        check(sample, made)
        assert sample["n_step.returns"].dtype == sample["n_step.discounts"].dtype == np.float32
        for place, (actor, step, env) in enumerate(sample["index"].tolist()):
            total, discount, later = plain_n_step(made[actor], step, env, n, 0.9)
            assert sample["n_step.returns"][place] == pytest.approx(total, rel=1e-5, abs=1e-6)
            assert sample["n_step.discounts"][place] == pytest.approx(discount)
            want = made[actor].value("frames", later, env)
            np.testing.assert_array_equal(sample["next.frames"][place], want)
            assert sample["next.global"][place, 0] == later


@settings(max_examples=40)
@given(
    length=st.integers(1, 5),
    capacity=st.integers(8, 12),
    rows=st.integers(6, 30),
    chance=st.sampled_from([0.0, 0.3, 1.0]),
    seed=st.integers(0, 99),
)
def test_sequences_equal_plain_slices(length, capacity, rows, chance, seed):
    with temporary_folder() as path:
        made = histories(path, 2, 2, capacity, rows, seed, chance)
        sample = SequenceSampler(blocks_of(made), NAMES, 12, length, seed=seed).sample()
        assert sample["frames"].shape == (12, length, 3, 3, 2)
        assert sample["mask"].dtype == np.bool_
        for place, (actor, start, env) in enumerate(sample["index"].tolist()):
            going = True
            for offset in range(length):
                row = made[actor].rows[start + offset]
                for name in NAMES:
                    want = made[actor].value(name, start + offset, env)
                    np.testing.assert_array_equal(sample[name][place, offset], want)
                assert sample["mask"][place, offset] == going
                going = going and not (row["terminations"][env] or row["truncations"][env])


def test_replay_works_on_blocks_whose_writer_waits(folder: ShmFolder) -> None:
    consumer = Consumer("learner", NAMES)
    made = histories(folder.path, 1, 1, 8, 4, consumers=(consumer,), on_full="wait")
    check(UniformSampler(blocks_of(made), NAMES, 16, seed=0).sample(), made)


@pytest.mark.parametrize("kind", [UniformSampler, PrioritisedSampler])
def test_a_lap_between_the_looks_at_two_counters_leaves_rows_to_pick(
    folder: ShmFolder, monkeypatch, kind
) -> None:
    """A reader that sleeps for a whole lap after its first look must neither fail nor mix steps."""
    made = histories(folder.path, 2, 2, 8, 8)
    sampler = kind(blocks_of(made), NAMES, 32, seed=0)
    reader, laps = sampler._reader, iter([11, 3])
    for name in ("_committed", "_oldest"):
        look = getattr(reader, name)

        def slow_look(look=look):
            found = look()
            for history in made.values():
                history.write(next(laps, 0))
            return found

        monkeypatch.setattr(reader, name, slow_look)
    check(sampler.sample(), made)
    if kind is PrioritisedSampler:
        sampler.sample()
        rows = np.flatnonzero(sampler.priorities._tree.leaves)
        assert len(rows) == 2 * 2 * (8 - 2)
