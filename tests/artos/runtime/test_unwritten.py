"""What an actor does not write is found in the first round of its process, by the key's name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from artos.buffer.actor_block import ActorBlock
from artos.buffer.layout import BlockSpec
from artos.errors import BadRow
from artos.runtime.unwritten import Unwritten
from artos.specs.keys import VERSION_KEY, DataKey

DTYPES = [
    *("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
    *("float16", "float32", "float64"),
]
SURE = ["bool", "int32", "int64", "float16", "float32", "float64"]


def block_of(folder: Path, key: DataKey, envs: int = 1) -> ActorBlock:
    """A block of eight rows, in which an earlier process wrote six: a round of four wraps."""
    path = folder / "actor-0"
    block = ActorBlock.create(path, BlockSpec(0, (key,), 8, envs, (), "overwrite"))
    block.allocate(6)
    block.arrays[key.name][:] = 1
    block.commit(6)
    return block


def a_round(
    block: ActorBlock, found: Unwritten, values: Any, rows: int = 4, writes: int = 4
) -> None:
    """Write ``values`` into the first ``writes`` rows of the next round, as an actor does."""
    (key,) = block.spec.keys
    start = block.allocate(rows)
    found.mark(start, rows)
    for step in range(start, start + rows):
        block.arrays[VERSION_KEY][block.index(step)] = 7
        if step < start + writes:
            block.arrays[key.name][block.index(step)] = values
    found.check(start, rows)
    block.commit(start + rows)


@pytest.fixture(params=DTYPES)
def block(request: pytest.FixtureRequest, tmp_path: Path) -> ActorBlock:
    """A block whose rows were left by an earlier process."""
    return block_of(tmp_path, DataKey("wind", (), request.param))


def test_a_key_that_is_not_written_is_named(block: ActorBlock) -> None:
    with pytest.raises(BadRow, match=r"key 'wind', actor 0, step 6: 4 of 4 rows were not written"):
        a_round(block, Unwritten(block), None, writes=0)


@pytest.mark.parametrize("dtype", SURE)
def test_each_row_has_to_be_written(dtype: str, tmp_path: Path) -> None:
    block = block_of(tmp_path, DataKey("wind", (), dtype), envs=2)
    with pytest.raises(BadRow, match=r"'wind'.* 1 of 4 rows were not written"):
        a_round(block, Unwritten(block), 0, writes=3)


def test_whatever_is_written_is_written(block: ActorBlock) -> None:
    """Also what looks as if it were not: 0, the bytes that are left there, NaN."""
    array = block.arrays["wind"]
    odd = {"b": True, "f": np.nan}.get(array.dtype.kind, 0)
    if array.itemsize < 4 and array.dtype.kind in "iu":
        odd = np.frombuffer(b"\xa5" * array.itemsize, array.dtype)[0]
    for value in (0, 1, odd):
        a_round(block, Unwritten(block), value)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_row_may_be_written_in_part(dtype: str, tmp_path: Path) -> None:
    """As where tokens are padded: what is beyond is of no meaning, but a bool is one."""
    block = block_of(tmp_path, DataKey("wind", (3,), dtype))
    found, array = Unwritten(block), block.arrays["wind"]
    start = block.allocate(4)
    found.mark(start, 4)
    for step in range(start, start + 4):
        array[block.index(step), :, 0] = step % 2
        block.arrays[VERSION_KEY][block.index(step)] = 7
    found.check(start, 4)
    if dtype == "bool":
        assert array.view("u1").max() == 1


def test_later_rounds_are_left_alone(block: ActorBlock) -> None:
    """An actor that writes in place finds there what it left."""
    found = Unwritten(block)
    a_round(block, found, 1)
    array = block.arrays["wind"]
    array[...] = 1
    found.mark(block.allocate(4), 4)
    assert (array == 1).all()


def test_a_short_round_has_the_rows_that_it_has(block: ActorBlock) -> None:
    found = Unwritten(block)
    start = block.allocate(4)
    found.mark(start, 4)
    for step in range(start, start + 2):
        block.arrays["wind"][block.index(step)] = 1
        block.arrays[VERSION_KEY][block.index(step)] = 7
    found.check(start, 2)


def test_few_bytes_may_be_what_was_left_there(tmp_path: Path) -> None:
    block = block_of(tmp_path, DataKey("wind", (), "uint8"))
    a_round(block, Unwritten(block), 0xA5, rows=1)


def test_a_type_too_wide_for_it_is_not_looked_at(tmp_path: Path) -> None:
    block = block_of(tmp_path, DataKey("wind", (), "longdouble"))
    a_round(block, Unwritten(block), 1, writes=0)
