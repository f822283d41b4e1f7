"""Rows out of one block and into another: across the wrap, in parts, compressed, damaged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import lz4.block
import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from artos.buffer.actor_block import ActorBlock
from artos.buffer.layout import BlockSpec
from artos.buffer.shm_folder import ShmFolder
from artos.errors import BadMessage, Overwritten
from artos.protocol import codec
from artos.protocol.data import Chunk
from artos.specs.keys import DataKey
from artos.transport import chunk as chunks
from artos.transport.chunk import Rings, load, parts_of, unload

KEYS = (
    DataKey("frames", (5, 3), "uint8"),
    DataKey("flags", (), "bool"),
    DataKey("all", (), "int64", per_env=False),
)
NAMES = ("frames", "flags", "all", "policy_version")


@pytest.fixture
def folder() -> Iterator[Path]:
    made = ShmFolder.create("test")
    yield made.path
    made.remove()


def block_in(folder: Path, name: str, capacity: int) -> Rings:
    return Rings(ActorBlock.create(folder / name, BlockSpec(4, KEYS, capacity, envs=2)))


def fill(rings: Rings, start: int, stop: int) -> None:
    rng = np.random.default_rng(start)
    rings.block.reserve(stop, NAMES)
    for array in rings.block.arrays.values():
        for step in range(start, stop):
            array[rings.block.index(step)] = rng.integers(0, 2, array.shape[1:])
    rings.block.commit(stop)


def rows(rings: Rings, name: str, start: int, stop: int) -> np.ndarray:
    array = rings.block.arrays[name]
    out = np.empty((stop - start, *array.shape[1:]), array.dtype)
    rings.block.read(name, start, stop, out)
    return out


def squeeze(name: str, view: np.ndarray) -> bytes | None:
    return None if name == "flags" else lz4.block.compress(view, store_size=False)


@pytest.mark.parametrize("pack", [squeeze, lambda name, view: None])
def test_rows_arrive_as_they_were(folder: Path, pack) -> None:
    # Another capacity, so that the rows lie together in one and not in the other.
    source, target = block_in(folder, "source", 12), block_in(folder, "target", 7)
    fill(source, 0, 10)
    for start, stop in ((0, 5), (5, 10)):
        chunk, frames = load(source, 1, NAMES, range(start, stop), pack, ends=True)
        unload(target, chunk, range(start, stop), frames)
    for name in NAMES:
        assert target.block.headers[name].written == 10
        assert np.array_equal(rows(target, name, 4, 10), rows(source, name, 4, 10))


def test_only_the_rows_asked_for_are_written(folder: Path) -> None:
    source, target = block_in(folder, "source", 12), block_in(folder, "target", 12)
    fill(source, 0, 10)
    chunk, frames = load(source, 1, NAMES, range(10), squeeze, ends=True)
    before = rows(target, "frames", 0, 6)
    unload(target, chunk, range(6, 10), frames)
    assert np.array_equal(rows(target, "frames", 0, 6), before)
    assert np.array_equal(rows(target, "frames", 6, 10), rows(source, "frames", 6, 10))


def test_a_reader_is_told_what_arriving_rows_overwrote(folder: Path) -> None:
    source, target = block_in(folder, "source", 12), block_in(folder, "target", 7)
    fill(source, 0, 10)
    for start, stop in ((0, 5), (5, 10)):
        chunk, frames = load(source, 1, ("frames", "all"), range(start, stop), squeeze, ends=True)
        unload(target, chunk, range(start, stop), frames)
    for name in ("frames", "all"):
        assert target.block.oldest(name) == 3
        with pytest.raises(Overwritten):
            rows(target, name, 2, 4)
    assert target.block.oldest("flags") == 0
    assert target.block.headers["flags"].written == 0, "that key has not arrived"


def test_a_place_is_announced_before_it_is_overwritten(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that copied old rows meanwhile must see so when it looks again."""
    source, target = block_in(folder, "source", 12), block_in(folder, "target", 4)
    fill(source, 0, 8)
    chunk, frames = load(source, 1, ("all",), range(4), squeeze, ends=True)
    unload(target, chunk, range(4), frames)
    chunk, frames = load(source, 1, ("all",), range(4, 8), squeeze, ends=True)
    reader, seen = ActorBlock.attach(target.block.segment.path), []
    monkeypatch.setattr(chunks, "_write", lambda *_, **__: seen.append(reader.oldest("all")))
    unload(target, chunk, range(4, 8), frames)
    assert seen == [4]


@pytest.mark.parametrize("ends", [True, False])
def test_a_chunk_says_what_is_in_it(folder: Path, ends: bool) -> None:
    source = block_in(folder, "source", 12)
    fill(source, 0, 10)
    asked: list[str] = []

    def pack(name: str, view: np.ndarray) -> bytes | None:
        asked.append(name)
        return squeeze(name, view)

    chunk, frames = load(source, 7, ("flags", "frames"), range(3, 8), pack, ends=ends)
    assert asked == ["flags", "frames"]
    sizes = (10, len(frames[1]))
    assert chunk == Chunk(4, 7, 3, 8, ("flags", "frames"), (10, 150), (False, True), ends, sizes)
    assert bytes(frames[0]) == source.block.arrays["flags"][3:8].tobytes()


def test_frames_lie_in_the_block_itself(folder: Path) -> None:
    source = block_in(folder, "source", 12)
    fill(source, 0, 10)
    _, frames = load(source, 1, ("frames",), range(10), lambda name, view: None, ends=True)
    assert np.shares_memory(frames[0], source.block.arrays["frames"])


@pytest.mark.parametrize("spoil", [
    lambda data: data[:-1],
    lambda data: b"\xff" * len(data),
    lambda data: b"",
    lambda data: lz4.block.compress(b"short", store_size=False),
])  # fmt: skip
def test_a_damaged_frame_changes_nothing(folder: Path, spoil) -> None:
    source, target = block_in(folder, "source", 12), block_in(folder, "target", 12)
    fill(source, 0, 10)
    chunk, frames = load(source, 1, NAMES, range(10), squeeze, ends=True)
    before = bytes(target.block.segment.memory)
    with pytest.raises(BadMessage, match=r"no LZ4 block|bytes where 80 were announced"):
        unload(target, chunk, range(10), [*frames[:-1], spoil(frames[-1])])
    assert bytes(target.block.segment.memory) == before


def test_a_frame_of_another_length_is_refused(folder: Path) -> None:
    source, target = block_in(folder, "source", 12), block_in(folder, "target", 12)
    fill(source, 0, 10)
    chunk, frames = load(source, 1, ("all",), range(10), squeeze, ends=True)
    longer = msgspec.structs.replace(chunk, raw=(chunk.raw[0] + 8,))
    with pytest.raises(BadMessage):
        unload(target, longer, range(10), frames)


@given(st.lists(st.binary(max_size=9), max_size=4))
def test_a_chunk_and_its_rows_are_one_frame(parts: list[bytes]) -> None:
    sizes = tuple(len(part) for part in parts)
    chunk = Chunk(1, 2, 3, 4, ("frames",), (15,), (False,), sizes=sizes)
    found = codec.decode(codec.encode(chunk, *parts))
    assert isinstance(found, Chunk)
    assert parts_of(found.content, found.sizes) == parts
    assert msgspec.structs.replace(found, content=memoryview(b"")) == chunk


@pytest.mark.parametrize("sizes", [(3,), (5,), (2, 3), (5, -1), ()])
def test_a_bulk_of_another_size_is_refused(sizes: tuple[int, ...]) -> None:
    with pytest.raises(BadMessage, match="4 bytes where"):
        parts_of(memoryview(b"rows"), sizes)
