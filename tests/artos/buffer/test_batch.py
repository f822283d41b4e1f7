"""Full batches and FIFO per actor against plain lists: wraps, stacks, any order, lapped reads."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from buffer_helpers import FRAME, KEYS, History, block_of_stacks, new_block, temporary_folder
from hypothesis import given, settings
from hypothesis import strategies as st

from artos.buffer.layout import Consumer
from artos.buffer.samplers.batch import Batch, BatchStore
from artos.buffer.samplers.frames import Rows, Sources
from artos.buffer.shm_folder import ShmFolder
from artos.errors import Overwritten, UnknownKey
from artos.protocol.invocations import Claim
from artos.specs.keys import VERSION_KEY, DataKey

NAMES = tuple(key.name for key in KEYS)


def histories(path, actors, envs, capacity, rows, seed=0, chance=0.3):
    made = {}
    for actor in range(actors):
        block = new_block(path, KEYS, capacity, actor=actor, envs=envs)
        made[actor] = History(block, chance, seed)
        for version in range(rows):
            made[actor].write(1, version)
    return made


def expected(history, name, start, stop, padding="zero"):
    if name in ("global", VERSION_KEY):
        return np.stack([history.value(name, step, 0) for step in range(start, stop)])
    rows = [
        [history.value(name, step, env, padding) for env in range(history.envs)]
        for step in range(start, stop)
    ]
    return np.array(rows)


@settings(max_examples=40)
@given(
    actors=st.integers(1, 3),
    envs=st.integers(1, 3),
    length=st.integers(1, 6),
    spare=st.integers(2, 5),
    rows=st.integers(8, 30),
    padding=st.sampled_from(["zero", "first"]),
    seed=st.integers(0, 99),
)
def test_batch_equals_plain_lists(actors, envs, length, spare, rows, padding, seed):
    with temporary_folder() as path:
        made = histories(path, actors, envs, length + spare, rows, seed)
        claims = [Claim(actor, rows - length, rows) for actor in made]
        blocks = {actor: history.block for actor, history in made.items()}
        batch = Batch(blocks, claims, BatchStore(), padding)
        assert batch.shape == (actors, length, envs)
        assert len(batch) == actors * length * envs
        order = np.random.default_rng(seed).permutation(len(batch))
        for name in batch.names:
            want = np.stack(
                [expected(made[c.actor], name, c.start, c.stop, padding) for c in claims]
            )
            got = batch.gather(name)
            np.testing.assert_array_equal(got, want)
            assert got.dtype == batch.key(name).dtype
            if not batch.key(name).per_env:
                want = np.repeat(want[:, :, None], envs, axis=2)
            flat = want.reshape(len(batch), *want.shape[3:])
            np.testing.assert_array_equal(batch.take(name, order), flat[order])
            some = np.sort(order[::2])
            np.testing.assert_array_equal(batch.take(name, some), flat[some])
            np.testing.assert_array_equal(batch.take(name, batch.rows(some)), flat[some])


def test_stacks_of_two_are_stacks(folder: ShmFolder) -> None:
    block = block_of_stacks(folder.path)
    rows = Rows(Sources([block]), *np.array([[0, 0], [0, 1], [0, 0]]))
    rows.take("frames", found := np.empty((2, 2), np.int64))
    assert found.tolist() == [[0, 10], [10, 11]], "zeros before the first if it is not said"
    batch = Batch({0: block}, [Claim(0, 1, 4)])
    want = [[10, 11], [0, 12], [12, 13]]
    assert batch.gather("frames").tolist() == [[[each] for each in want]]
    assert batch.take("frames", np.array([2, 0, 1])).tolist() == [want[2], want[0], want[1]]
    assert batch.gather("ages").shape == (1, 3, 1)


def test_names_views_and_versions(folder: ShmFolder) -> None:
    made = histories(folder.path, 2, 2, 7, 10)
    batch = Batch({a: h.block for a, h in made.items()}, [Claim(0, 5, 10), Claim(1, 4, 9)])
    assert batch.names == (*NAMES, VERSION_KEY)
    np.testing.assert_array_equal(batch.versions(), [range(5, 10), range(4, 9)])
    for history, claim, views in zip(
        made.values(), batch.claims, batch.views("rewards"), strict=True
    ):
        assert len(views) == 2, "these claims cross the wrap"
        assert all(np.shares_memory(view, history.block.arrays["rewards"]) for view in views)
        want = expected(history, "rewards", claim.start, claim.stop)
        np.testing.assert_array_equal(np.concatenate(views), want)


def test_fifo_claims_of_one_actor_follow_each_other(folder: ShmFolder) -> None:
    history = histories(folder.path, 1, 2, 12, 12)[0]
    batch = Batch({0: history.block}, [Claim(0, 2, 6), Claim(0, 6, 10)])
    want = expected(history, "frames", 2, 10).reshape(2, 4, 2, 3, *FRAME)
    np.testing.assert_array_equal(batch.gather("frames"), want)


def test_arrays_are_reused_and_are_tensors_without_a_copy(folder: ShmFolder) -> None:
    made = histories(folder.path, 2, 2, 8, 8)
    store = BatchStore()
    blocks = {a: h.block for a, h in made.items()}
    claims = [Claim(0, 3, 8), Claim(1, 3, 8)]
    first = Batch(blocks, claims, store).gather("frames")
    again = Batch(blocks, claims, store)
    assert again.gather("frames").ctypes.data == first.ctypes.data
    taken = again.take("frames", np.arange(4))
    assert again.take("frames", np.arange(3, 5)).ctypes.data == taken.ctypes.data
    assert torch.from_numpy(taken).data_ptr() == taken.ctypes.data
    assert not np.shares_memory(taken, first)


def test_arrays_are_kept_by_name() -> None:
    store = BatchStore()
    first = store.array("a", (3,), "int64")
    assert not np.shares_memory(first, store.array("b", (3,), "int64"))
    assert np.shares_memory(first, store.array("a", (2,), "int32"))


def test_minibatches_are_a_sorted_partition(folder: ShmFolder) -> None:
    history = histories(folder.path, 1, 3, 8, 8)[0]
    batch = Batch({0: history.block}, [Claim(0, 1, 8)])
    parts = list(batch.minibatches(4, np.random.default_rng(0)))
    assert sorted(np.concatenate(parts)) == list(range(21))
    assert {len(part) for part in parts} == {5, 6}
    assert all((np.diff(part) > 0).all() for part in parts)


def test_lapped_batch_says_so(folder: ShmFolder) -> None:
    history = histories(folder.path, 1, 1, 8, 8, chance=0.0)[0]
    batch = Batch({0: history.block}, [Claim(0, 2, 6)])
    batch.gather("frames")  # looks back to step 0
    history.block.allocate(1)
    with pytest.raises(Overwritten) as caught:
        batch.gather("frames")
    assert (caught.value.actor, caught.value.start, caught.value.oldest) == (0, 0, 1)
    batch.gather("rewards")
    history.block.commit(9)
    history.block.allocate(2)
    with pytest.raises(Overwritten):
        batch.guard("rewards")
    with pytest.raises(Overwritten):
        batch.take("rewards", np.array([3]))


def test_waiting_writer_leaves_the_history_of_claimed_stacks(folder: ShmFolder) -> None:
    consumer = Consumer("learner", NAMES)
    block = new_block(folder.path, KEYS, 8, consumers=(consumer,), on_full="wait")
    history = History(block, 0.0)
    assert block.free() == 6
    history.write(6)
    block.acknowledge("learner", 4, 4)
    assert block.free() == 4
    history.write(4)
    batch = Batch({0: block}, [Claim(0, 4, 10)])
    np.testing.assert_array_equal(batch.gather("frames")[0], expected(history, "frames", 4, 10))


def test_a_stack_may_look_back_over_a_saturated_age(folder: ShmFolder) -> None:
    block = new_block(folder.path, KEYS, 300)
    history = History(block, 0.0)
    history.write(300)
    batch = Batch({0: block}, [Claim(0, 250, 300)])
    np.testing.assert_array_equal(batch.gather("frames")[0], expected(history, "frames", 250, 300))


def test_refusals(folder: ShmFolder) -> None:
    made = histories(folder.path, 1, 1, 8, 8)
    blocks = {0: made[0].block, 1: new_block(folder.path, KEYS, 8, actor=1, envs=2)}
    with pytest.raises(ValueError, match="one length"):
        Batch(blocks, [])
    with pytest.raises(ValueError, match="one length"):
        Batch(blocks, [Claim(0, 0, 2), Claim(0, 2, 5)])
    with pytest.raises(ValueError, match="width"):
        Batch(blocks, [Claim(0, 0, 2), Claim(1, 0, 2)])
    with pytest.raises(UnknownKey, match="frames"):
        Batch(blocks, [Claim(0, 0, 2)]).gather("frame")


def test_wide_rows_of_every_dtype(folder: ShmFolder) -> None:
    dtypes = ("bool", "int8", "uint16", "int32", "float16", "float32", "uint64")
    keys = [DataKey(dtype, (5,), dtype) for dtype in dtypes]
    block = new_block(folder.path, keys, 4, envs=2)
    start = block.allocate(3)
    for name in dtypes:
        block.arrays[name][start : start + 3] = np.arange(30).reshape(3, 2, 5) % 2
    block.commit(3)
    batch = Batch({0: block}, [Claim(0, 0, 3)])
    for name in dtypes:
        assert batch.gather(name).dtype == name
        np.testing.assert_array_equal(
            batch.take(name, np.array([5]))[0], batch.gather(name)[0, 2, 1]
        )
