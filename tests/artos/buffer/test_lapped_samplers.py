"""Samplers whose rows are overwritten while they copy them."""

from __future__ import annotations

import numpy as np
import pytest
from buffer_helpers import block_of_stacks, new_block
from sampler_helpers import NAMES, blocks_of, check, histories

from artos.buffer.samplers import transitions
from artos.buffer.samplers.n_step import NStep
from artos.buffer.samplers.prioritised import PrioritisedSampler
from artos.buffer.samplers.sequences import SequenceSampler
from artos.buffer.samplers.transitions import Picks, TransitionReader, _from
from artos.buffer.samplers.uniform import UniformSampler
from artos.buffer.shm_folder import ShmFolder
from artos.errors import Overwritten
from artos.specs.keys import VERSION_KEY, DataKey


@pytest.mark.parametrize("kind", [UniformSampler, PrioritisedSampler])
def test_rows_overwritten_while_they_are_read_are_drawn_anew(
    folder: ShmFolder, monkeypatch, kind
) -> None:
    made = histories(folder.path, 2, 2, 12, 12, final_rows=True)
    sampler = kind(blocks_of(made), NAMES, 64, next_keys=NAMES, seed=0)
    fill, laps = sampler._reader._fill, iter([7, 1, 3])

    def interrupted(out, picks):
        fill(out, picks)
        if (count := next(laps, 0)) > 0:
            made[0].write(count)

    monkeypatch.setattr(sampler._reader, "_fill", interrupted)
    sample = sampler.sample()
    check(sample, made, "zero", NAMES)
    assert sample["index"][sample["index"][:, 0] == 0, 1].min() >= 11 + 2
    if kind is PrioritisedSampler:
        assert np.isfinite(sample["weights"]).all()


@pytest.mark.parametrize("kind", [UniformSampler, PrioritisedSampler, SequenceSampler])
def test_a_writer_that_overwrites_much_in_every_copy_is_caught_up_with(
    folder: ShmFolder, monkeypatch, kind
) -> None:
    """A third of the buffer goes while the rows are copied, however few there are to be copied."""
    made = histories(folder.path, 1, 2, 60, 60, final_rows=True)
    more = {"length": 4} if kind is SequenceSampler else {"next_keys": NAMES}
    sampler = kind(blocks_of(made), NAMES, 64, seed=0, **more)
    fill = sampler._reader._fill

    def overtaken(out, picks):
        fill(out, picks)
        made[0].write(20)

    monkeypatch.setattr(sampler._reader, "_fill", overtaken)
    for _ in range(5):
        sample = sampler.sample()
        if kind is not SequenceSampler:
            check(sample, made, "zero", NAMES)
        assert sample["index"][:, 1].min() >= made[0].block.oldest()


@pytest.mark.parametrize("keys", [("r", "obs"), (VERSION_KEY, "r", "obs")])
def test_rows_that_are_written_in_stages_are_gone_with_the_first(
    folder: ShmFolder, keys: tuple[str, ...]
) -> None:
    """Also where a table names the policy version among its keys, before the others."""
    block = new_block(folder.path, (DataKey("obs"), DataKey("r")), 100)
    block.reserve(100, ("obs", "r", VERSION_KEY))
    block.commit(100)
    block.reserve(150, ("r", VERSION_KEY))
    assert TransitionReader([block], keys).window() == (50, 100)


def test_a_reader_that_is_lapped_for_ever_gives_up(folder: ShmFolder, monkeypatch) -> None:
    """And names the actor whose rows are gone, of two."""
    made = histories(folder.path, 2, 1, 8, 8)
    reader = TransitionReader([history.block for history in made.values()], ("rewards",))
    fill = reader._fill

    def always_lapped(out, picks):
        fill(out, picks)
        made[1].write(8)

    def draw(count):
        newest = [history.block.written - 1 for history in made.values()]
        return Picks(*(np.array(column)[-count:] for column in ([0, 1], newest, [0, 0])))

    monkeypatch.setattr(reader, "_fill", always_lapped)
    with pytest.raises(Overwritten) as caught:
        reader.read(2, draw)
    written = made[1].block.written
    fault = caught.value
    assert (fault.actor, fault.start, fault.oldest) == (1, written - 17, written - 16)


@pytest.mark.parametrize("kind", [UniformSampler, PrioritisedSampler, SequenceSampler])
def test_rows_that_nobody_touches_are_copied_once(folder: ShmFolder, monkeypatch, kind) -> None:
    made = histories(folder.path, 2, 1, 8, 12)
    more = {"length": 2} if kind is SequenceSampler else {}
    sampler = kind(blocks_of(made), ("rewards",), 8, seed=0, **more)
    fill, filled = sampler._reader._fill, []
    monkeypatch.setattr(
        sampler._reader, "_fill", lambda out, picks: (filled.append(1), fill(out, picks))
    )
    for turn in range(3):
        sampler.sample()
        assert len(filled) == turn + 1


@pytest.mark.parametrize(("written", "ahead"), [(1, 2), (4, 8), (15, 20), (30, 20)])
def test_rows_are_drawn_anew_ahead_of_a_writer_by_its_pace(
    folder: ShmFolder, monkeypatch, written: int, ahead: int
) -> None:
    """Twice as far as it came during the copy, and at most half of the block."""
    block = new_block(folder.path, (DataKey("rewards"),), 41)
    for _ in range(2):
        block.commit(block.allocate(30) + 30)
    sampler = UniformSampler({0: block}, ("rewards",), 64, seed=0)
    fill, drawn, counts = sampler._reader._fill, [], iter([written])

    def overtaken(out, picks):
        fill(out, picks)
        count = next(counts, 0)
        block.commit(block.allocate(count) + count)

    def seen(first, draw, count):
        drawn.append(first.tolist())
        return _from(first, draw, count)

    monkeypatch.setattr(sampler._reader, "_fill", overtaken)
    monkeypatch.setattr(transitions, "_from", seen)
    sampler.sample()
    assert drawn == [[60 - 41 + written + ahead]]


@pytest.mark.parametrize("kind", [UniformSampler, PrioritisedSampler])
def test_stacks_of_two_are_stacks(folder: ShmFolder, kind) -> None:
    block = block_of_stacks(folder.path)
    want = {0: [0, 10], 1: [10, 11], 2: [0, 12], 3: [12, 13]}
    for next_keys in ((), ("frames",)):
        sample = kind({0: block}, ("frames",), 16, next_keys=next_keys, seed=0).sample()
        steps = sample["index"][:, 1].tolist()
        assert sample["frames"].tolist() == [want[step] for step in steps]
        if next_keys:
            assert sample["next.frames"].tolist() == [want[step + 1] for step in steps]


@pytest.mark.parametrize("kind", [UniformSampler, PrioritisedSampler, SequenceSampler])
def test_rows_that_become_void_while_they_are_read_are_drawn_anew(
    folder: ShmFolder, monkeypatch, kind
) -> None:
    """Their actor is placed elsewhere and writes others there, which reserves nothing anew."""
    keys = (DataKey("rewards"), DataKey("terminations"), DataKey("truncations"))
    block = new_block(folder.path, keys, 8)
    steps = np.arange(8)

    def write(start: int, more: float) -> None:
        block.allocate(8 - start)
        for name in ("rewards", "terminations", "truncations"):
            block.arrays[name][start:, 0] = steps[start:] + more
        block.arrays[VERSION_KEY][start:] = 0
        block.commit(8)

    write(0, 0.0)
    more = {"length": 2} if kind is SequenceSampler else {}
    sampler = kind({0: block}, ("rewards",), 64, seed=0, **more)
    fill, moves = sampler._reader._fill, iter([5, 2])

    def placed_elsewhere(out, picks):
        fill(out, picks)
        if (base := next(moves, None)) is not None:
            block.begin_term(block.incarnation + 1, base)
            write(base, 100.0)

    monkeypatch.setattr(sampler._reader, "_fill", placed_elsewhere)
    sample = sampler.sample()
    found = sample["rewards"].reshape(64, -1)
    want = np.where(steps < 2, steps, steps + 100.0)
    for offset, column in enumerate(found.T):
        np.testing.assert_array_equal(column, want[sample["index"][:, 1] + offset])
    assert len(np.unique(sample["index"][:, 1])) > 6


def test_rows_before_a_border_are_drawn_again_and_put_in_order() -> None:
    """Drawn with 24 rows of two blocks each time: those at the border stay, as do their orders."""
    steps = np.arange(24)
    draws = [Picks(np.repeat([0, 1], 12), steps.copy(), np.zeros(24, np.int64)) for _ in range(2)]
    asked = []

    def draw(count: int) -> Picks:
        asked.append(count)
        return Picks(*(column[-count:] for column in draws.pop(0)))

    picks = _from(np.array([3, 12]), draw, 24)
    assert asked == [24, 3]
    assert picks.owners.tolist() == [0] * 9 + [1] * 15
    assert picks.steps.tolist() == [*range(3, 12), 21, 22, 23, *range(12, 24)]


def test_rows_that_always_come_before_the_border_are_taken_in_the_end() -> None:
    picks = _from(np.array([9]), lambda count: Picks(*np.zeros((3, count), np.int64)), 2)
    assert picks.steps.tolist() == [0, 0]


LATER = ("rewards", "terminations", "truncations", "valid")
STAGED = tuple(DataKey(name) for name in ("x", *LATER))


@pytest.mark.parametrize("kind", [UniformSampler, PrioritisedSampler])
def test_rows_of_which_a_key_is_still_to_come_are_left_out(folder: ShmFolder, kind) -> None:
    """Also of keys that only the returns are made of; rows that the first stage takes are gone."""
    block = new_block(folder.path, STAGED, 8)
    first, later = ("x", VERSION_KEY), LATER
    for name, array in block.arrays.items():
        array[:] = name == "valid"
    block.reserve(8, block._names)
    block.commit(8)
    block.reserve(11, first)
    block.commit(11, first)
    block.reserve(9, later)
    block.commit(9, later)
    sampler = kind({0: block}, ("x",), 64, seed=0, n_step=NStep(n=2, gamma=0.9))
    assert set(sampler.sample()["index"][:, 1].tolist()) == set(range(3, 8))


def test_what_a_reader_does_if_it_is_not_told_otherwise(folder: ShmFolder) -> None:
    """It reuses its arrays at once, pads with zeros, and has left out nothing."""
    keys = (DataKey("frames", (), "int64", stack=3), DataKey("ages", (), "uint8"))
    block = new_block(folder.path, keys, 8)
    block.allocate(1)
    block.arrays["frames"][0], block.arrays["ages"][0] = 7, 0
    block.commit(1)
    reader = TransitionReader([block], ("frames",))
    assert reader.stale == 0
    found = [reader.read(1, lambda count: Picks(*np.zeros((3, count), np.int64))) for _ in range(2)]
    assert found[0]["frames"].tolist() == [[0, 0, 7]]
    assert np.shares_memory(found[0]["frames"], found[1]["frames"])
