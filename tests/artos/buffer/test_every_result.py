"""Samplers draw every valid result: not only valid ones (the other tests see to that), but all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from buffer_helpers import FRAME, History, new_block
from test_samplers import blocks_of, histories

from artos.buffer.samplers.n_step import NStep
from artos.buffer.samplers.prioritised import PrioritisedSampler
from artos.buffer.samplers.sequences import SequenceSampler
from artos.buffer.samplers.uniform import UniformSampler
from artos.buffer.shm_folder import ShmFolder
from artos.specs.keys import DataKey

Drawn = set[tuple[int, int, int]]
CAPACITY, ENVS = 8, 2
PLAIN, STACKED = ("rewards", "terminations", "truncations"), ("frames",)
SINGLE: list[Any] = [UniformSampler, PrioritisedSampler]


def everything_drawn(sampler: Any, most: int, version: int | None = None) -> Drawn:
    """What many batches draw: as many rows as make it certain that each of ``most`` came up."""
    batches = -(-most * 30 // sampler.batch_size)
    return {
        (actor, step, env)
        for _ in range(batches)
        for actor, step, env in sampler.sample(version)["index"].tolist()
    }


def valid(
    made: dict[int, History], back: int, ahead: int, oldest: int = 0, resets: bool = False
) -> Drawn:
    """Every first row of what can be read: ``back`` rows before it and ``ahead`` after it are.

    ``stale`` counts also those that are only resets.
    """
    found = set()
    for actor, history in made.items():
        reserved = history.block.headers["rewards"].reserved
        lost = reserved - CAPACITY
        first = max(oldest, lost + back if lost > 0 else 0)
        stops = range(first, len(history.rows) - ahead)
        found |= {
            (actor, step, env)
            for step in stops
            for env in range(ENVS)
            if resets or history.rows[step]["valid"][env]
        }
    return found


@pytest.fixture(params=["young", "full", "wrapped", "being written"])
def made(request: pytest.FixtureRequest, folder: ShmFolder) -> dict[int, History]:
    """Two actors, one a row ahead of the other; row k is of version k."""
    rows = {"young": 4, "full": 7, "wrapped": 18, "being written": 11}[request.param]
    found = histories(folder.path, 2, ENVS, CAPACITY, rows, final_rows=True)
    found[1].write(1, version=rows)
    if request.param == "being written":
        found[0].block.allocate(2)
    return found


@pytest.mark.parametrize("kind", SINGLE)
@pytest.mark.parametrize("keys", [PLAIN, STACKED], ids=["plain", "stacked"])
@pytest.mark.parametrize("next_row", [False, True], ids=["alone", "with the next"])
def test_every_row(made: dict[int, History], kind: Any, keys: Any, next_row: bool) -> None:
    sampler = kind(blocks_of(made), keys, 64, next_keys=keys if next_row else (), seed=0)
    want = valid(made, back=2 if keys is STACKED else 0, ahead=int(next_row))
    for _ in range(2):
        assert everything_drawn(sampler, len(want)) == want


@pytest.mark.parametrize("kind", SINGLE)
def test_every_row_that_has_a_return(made: dict[int, History], kind: Any) -> None:
    sampler = kind(blocks_of(made), PLAIN, 64, seed=0, n_step=NStep(n=3, gamma=0.9))
    want = valid(made, back=0, ahead=1)
    assert everything_drawn(sampler, len(want)) == want


@pytest.mark.parametrize("length", [1, 2, 3, 4])
@pytest.mark.parametrize("keys", [PLAIN, STACKED], ids=["plain", "stacked"])
def test_every_window(made: dict[int, History], length: int, keys: Any) -> None:
    sampler = SequenceSampler(blocks_of(made), keys, 32, length, seed=0)
    want = valid(made, back=2 if keys is STACKED else 0, ahead=length - 1)
    assert want, "the newest window ends with the newest row"
    assert everything_drawn(sampler, len(want)) == want


SAMPLERS: list[Callable[..., Any]] = [
    *SINGLE, lambda blocks, keys, size, **more: SequenceSampler(blocks, keys, size, 1, **more)
]  # fmt: skip


@pytest.mark.parametrize("kind", SAMPLERS, ids=["uniform", "prioritised", "sequences"])
@pytest.mark.parametrize("max_lag", [0, 2, 3])
def test_every_row_that_is_young_enough(made: dict[int, History], kind: Any, max_lag: int) -> None:
    sampler = kind(blocks_of(made), PLAIN, 64, seed=0, max_lag=max_lag)
    newest = max(len(history.rows) for history in made.values()) - 1
    for version in (None, newest, newest - 1):
        oldest = (newest if version is None else version) - max_lag
        want = valid(made, back=0, ahead=0, oldest=oldest)
        assert everything_drawn(sampler, len(want), version) == want
        rows = [valid(made, 0, 0, oldest=first, resets=True) for first in (0, oldest)]
        assert sampler.stale == len(rows[0]) - len(rows[1])


@pytest.mark.parametrize("kind", SINGLE)
def test_rows_come_in_and_go_out_as_the_writers_go_on(folder: ShmFolder, kind: Any) -> None:
    """Every row is drawn at every step of a life of a block, not only at its end."""
    made = histories(folder.path, 2, ENVS, CAPACITY, 2, final_rows=True)
    sampler = kind(blocks_of(made), PLAIN, 64, seed=0)
    for count in (0, 1, 5, 3, 8, 20, 2):
        made[0].write(count)
        made[1].write(1)
        want = valid(made, back=0, ahead=0)
        assert everything_drawn(sampler, len(want)) == want


@pytest.mark.parametrize("kind", SINGLE)
def test_every_valid_row_however_rare(folder: ShmFolder, kind: Any) -> None:
    keys = (DataKey("valid", (), "bool"), DataKey("frames", FRAME, "uint8"))
    blocks = {a: new_block(folder.path, keys, CAPACITY, actor=a, envs=ENVS) for a in (0, 1)}
    rng = np.random.default_rng(0)
    for block in blocks.values():
        block.allocate(13)
        block.arrays["valid"][:] = rng.random((CAPACITY, ENVS)) < 0.3
        block.commit(13)
    want = {
        (actor, step, env)
        for actor, block in blocks.items()
        for step in range(5, 13)
        for env in range(ENVS)
        if block.arrays["valid"][step % CAPACITY, env]
    }
    assert 4 < len(want) < 16
    assert everything_drawn(kind(blocks, ("frames",), 64, seed=0), len(want)) == want


def test_every_priority_above_zero_is_drawn(folder: ShmFolder) -> None:
    made = histories(folder.path, 2, ENVS, CAPACITY, 18, final_rows=True)
    sampler = PrioritisedSampler(blocks_of(made), PLAIN, 64, seed=0, alpha=1.0)
    want = valid(made, back=0, ahead=0)
    index = np.array(sorted(want))
    everything_drawn(sampler, len(want))
    sampler.update(index, np.linspace(0.1, 1.0, len(index)))
    assert everything_drawn(sampler, 4 * len(want)) == want
    sampler.update(index[:3], np.zeros(3))
    rare = {(a, s, e) for a, s, e in index[:3].tolist()}
    assert want - rare <= everything_drawn(sampler, 4 * len(want)) <= want


@pytest.mark.parametrize("kind", SAMPLERS, ids=["uniform", "prioritised", "sequences"])
def test_the_seed_decides_what_is_drawn(folder: ShmFolder, kind: Any) -> None:
    blocks = blocks_of(histories(folder.path, 2, ENVS, CAPACITY, 18))

    def drawn(seed: int | None) -> list[Any]:
        sampler = kind(blocks, PLAIN, 16, seed=seed)
        return [sampler.sample()["index"].tolist() for _ in range(3)]

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)
    assert drawn(None) != drawn(None)


@pytest.mark.parametrize("kind", SAMPLERS, ids=["uniform", "prioritised", "sequences"])
def test_arrays_are_used_again(folder: ShmFolder, kind: Any) -> None:
    blocks = blocks_of(histories(folder.path, 1, 1, CAPACITY, 8))
    sampler = kind(blocks, PLAIN, 16, seed=0)
    assert len({sampler.sample()["rewards"].ctypes.data for _ in range(4)}) == 1


@pytest.mark.parametrize("kind", SAMPLERS, ids=["uniform", "prioritised", "sequences"])
@pytest.mark.parametrize("padding", ["zero", "first"])
def test_stacks_are_padded_as_was_asked_for(folder: ShmFolder, kind: Any, padding: str) -> None:
    made = histories(folder.path, 1, 1, CAPACITY, 3, chance=0.0)
    sample = kind(blocks_of(made), STACKED, 32, seed=0, padding=padding).sample()
    for place, (_, step, env) in enumerate(sample["index"].tolist()):
        want = made[0].value("frames", step, env, padding)
        np.testing.assert_array_equal(sample["frames"][place].reshape(want.shape), want)
