"""Priorities outlive the process that draws by them: what is known stays, the rest is new."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from buffer_helpers import new_block
from sampler_helpers import NAMES, blocks_of, histories

from artos.buffer.handed_over import cut
from artos.buffer.samplers.prioritised import PrioritisedSampler
from artos.buffer.samplers.priority_memory import PriorityMemory, copied, memory_bytes
from artos.buffer.samplers.sequences import SequenceSampler
from artos.buffer.segment import Segment
from artos.buffer.shm_folder import ShmFolder
from artos.errors import LayoutMismatch
from artos.specs.keys import DataKey

ACTORS, ENVS, CAPACITY = 2, 2, 12


@pytest.fixture
def made(folder: ShmFolder):
    return histories(folder.path, ACTORS, ENVS, CAPACITY, rows=30)


@pytest.fixture
def file(folder: ShmFolder) -> Path:
    return folder.path / "priorities-learner.learn"


def sampler(made, file, seed=1, alpha=1.0, **more):
    return PrioritisedSampler(
        blocks_of(made), NAMES, 16, seed=seed, alpha=alpha, memory=file, **more
    )


def rate(made, file, **more):
    """A sampler that has given each row that it drew a priority of its own."""
    first = sampler(made, file, **more)
    for _ in range(20):
        index = first.sample()["index"]
        first.update(index, 1 + index[:, 1] + index[:, 0] / 4 + index[:, 2] / 8)
    return first


def leaves(found) -> list[float]:
    return found.priorities._tree.leaves.tolist()


def test_another_process_draws_by_the_same_priorities(made, file) -> None:
    first = rate(made, file)
    before, total = leaves(first), first.priorities._tree.total
    other = sampler(made, file)
    assert (leaves(other), other.priorities._tree.total) == (before, pytest.approx(total))
    other.sample()
    assert leaves(other) == before
    for history in made.values():
        history.write(1, 99)
    other.sample()
    changed = [now for now, then in zip(leaves(other), before, strict=True) if now != then]
    assert {*changed} <= {max(before), 0.0}
    assert max(before) in changed


def test_it_is_as_if_nothing_had_been_in_between(made, file, folder: ShmFolder) -> None:
    """Bit for bit: whoever goes on draws what the first one would have drawn."""
    rate(made, file)
    uninterrupted = rate(made, folder.path / "priorities-other")
    going_on = sampler(made, file)
    state = uninterrupted.priorities._rng.bit_generator.state
    going_on.priorities._rng.bit_generator.state = state
    for _ in range(5):
        now, then = going_on.sample(), uninterrupted.sample()
        np.testing.assert_array_equal(now["index"], then["index"])
        np.testing.assert_array_equal(now["weights"], then["weights"])


def test_windows_keep_theirs_too(made, file) -> None:
    def windows():
        return SequenceSampler(
            blocks_of(made), NAMES, 8, 3, burn_in=1, alpha=0.9, seed=1, memory=file
        )

    first = windows()
    for _ in range(20):
        index = first.sample()["index"]
        first.update(index, 1.0 + index[:, 1])
    before = leaves(first)
    other = windows()
    other.sample()
    assert leaves(other) == before
    assert len({*before}) > 5


def test_rows_that_were_cut_off_count_as_new(made, file) -> None:
    """After a kill rows behind the checkpoint are sampled again: they are others."""
    rate(made, file)
    PriorityMemory(Segment.attach(file)).forget({0: 27, 1: 3})
    other = np.array(leaves(sampler(made, file)))
    known = other[: ACTORS * CAPACITY * ENVS].reshape(ACTORS, CAPACITY, ENVS)
    assert not known[1].any(), "its known rows are all gone"
    assert known[0][np.arange(20, 27) % CAPACITY].all(), "stacks need the rows before"
    assert not known[0][np.arange(27, 30) % CAPACITY].any()


def test_a_row_whose_successor_is_cut_off_is_not_drawn_in_a_term_of_the_same_number(
    folder: ShmFolder, file: Path
) -> None:
    """A cluster counts the places of an actor anew in each part of a run."""
    marks = (DataKey("valid", (), "bool"), DataKey("ages", (), "uint8"))
    block = new_block(folder.path, marks, CAPACITY)
    drawn = partial(PrioritisedSampler, {0: block}, ("ages",), 64, next_keys=("ages",), seed=1)

    def episode(rows: int) -> None:
        start = block.allocate(rows)
        block.arrays["valid"][start : start + rows] = True
        block.arrays["ages"][start : start + rows, 0] = np.arange(rows)
        block.commit(start + rows)

    block.begin_term(1, 0)
    episode(10)
    drawn(memory=file).sample()
    cut(block, 5)
    PriorityMemory(Segment.attach(file)).forget({0: 5})
    block.incarnation = 0
    block.begin_term(1, 5)
    episode(5)
    steps = set(drawn(memory=file).sample()["index"][:, 1].tolist())
    assert steps == {0, 1, 2, 3, 5, 6, 7, 8}


def test_data_sets_are_left_as_they_are(made, file) -> None:
    rate(made, file)
    memory = PriorityMemory(Segment.attach(file))
    before = memory.known.copy()
    memory.forget({0: 27})
    np.testing.assert_array_equal(memory.known[:, 1], before[:, 1])


@pytest.mark.parametrize("what", ["alpha", "actors", "capacity"])
def test_those_of_others_are_no_ones(made, file, tmp_path: Path, what: str) -> None:
    rate(made, file)
    if what == "alpha":
        other = sampler(made, file, alpha=0.5)
    else:
        shape = (1, ENVS, CAPACITY) if what == "actors" else (ACTORS, ENVS, CAPACITY + 1)
        (own := tmp_path / "own").mkdir()
        other = sampler(histories(own, *shape, rows=30), file)
    assert not any(leaves(other))
    other.sample()
    assert len({*leaves(other)}) == 2, "0, and the first priority"


@pytest.mark.parametrize("harm", ["cut", "empty", "foreign", "counts"])
def test_a_damaged_file_is_made_anew(made, file, harm: str) -> None:
    rate(made, file)
    data = bytearray(file.read_bytes())
    if harm == "counts":
        data[8:16] = (10**9).to_bytes(8, "little")
    changed = {"cut": data[:-1], "empty": b"", "foreign": b"x" * len(data), "counts": data}[harm]
    file.write_bytes(bytes(changed))
    with pytest.raises(LayoutMismatch):
        PriorityMemory(Segment.attach(file))
    assert not any(leaves(sampler(made, file)))


def test_unsound_values_are_forgotten(made, file) -> None:
    rate(made, file)
    memory = PriorityMemory(Segment.attach(file))
    memory.leaves[:3] = np.nan, -1.0, np.inf
    memory.highest = np.nan
    memory.known[1:3, 0] = -5, 2**60
    memory.forget({0: 30, 1: 30})
    other = sampler(made, file)
    other.sample()
    assert np.isfinite(leaves(other)).all()
    assert min(leaves(other)) == 0.0
    assert other.priorities._tree.total > 0


def test_a_copy_is_sound_while_its_writer_goes_on(
    made, file, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of which it is uncertain whose priority was copied count as new."""
    first = rate(made, file)
    make = PriorityMemory.__init__
    calls = []

    def late(self, segment: Segment) -> None:
        make(self, segment)
        calls.append(self)
        if len(calls) == 2:  # the copy was made; only now its original is looked at again
            made[0].write(1, 99)
            first.sample()

    monkeypatch.setattr(PriorityMemory, "__init__", late)
    data = copied(file)
    monkeypatch.undo()
    file.write_bytes(data.tobytes())
    known = PriorityMemory(Segment.attach(file)).known
    first_known, last_known = known[1:3, 0].tolist()
    window = first.priorities._known
    assert first_known == window.start[0]
    assert last_known == window.stop[0] - 1, "the newest row came later"
    assert known[2, 1] == window.stop[1]


def test_its_size_is_known_before(made, file) -> None:
    rate(made, file)
    assert file.stat().st_size == memory_bytes(ACTORS, CAPACITY * ENVS)


def test_whoever_is_killed_in_making_it_leaves_nothing_in_the_way(
    made, file, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that is saved at that moment finds no file of it."""

    def killed(draft: Path, to: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as there:
        there.setattr(Path, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            sampler(made, file)
    assert [*file.parent.glob("priorities-*")] == []
    assert not any(leaves(sampler(made, file)))
    assert file.exists()
