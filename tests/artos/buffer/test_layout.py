"""Where everything lies in an actor block, and what is refused that is no block of ours."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import msgspec
import numpy as np
import pytest
from buffer_helpers import FRAME, Fuse, Killed, arm, new_block

from artos.buffer.actor_block import ActorBlock
from artos.buffer.doorbell import SEMAPHORE_BYTES, Doorbell
from artos.buffer.layout import (
    KEY_HEADER_BYTES,
    LAYOUT_VERSION,
    MAGIC,
    PAGE,
    PREAMBLE_BYTES,
    BlockSpec,
    Consumer,
    Layout,
    align,
    description,
    words_of,
)
from artos.buffer.shm_folder import ShmFolder
from artos.errors import LayoutMismatch, UnknownKey
from artos.specs.keys import VERSION_KEY, DataKey

SPEC = BlockSpec(3, (DataKey("x"),), 8)
TEXT = msgspec.json.encode(SPEC)
UNREADABLE = "an unreadable description ("


def memory(
    text: bytes = TEXT, *, magic: int = MAGIC, version: int = LAYOUT_VERSION, more: int = 0,
    start: int = 64,
) -> memoryview:  # fmt: skip
    """The beginning of a block file whose description is at byte ``start``."""
    size = start + len(text)
    words = np.array([magic, version, len(text), size + more], np.int64).tobytes()
    return memoryview(bytearray(words.ljust(start, b"\0") + text))


def test_a_description_is_found_where_it_begins() -> None:
    assert description("block", memory(), MAGIC, 64, BlockSpec) == SPEC
    assert description("block", memory(start=32), MAGIC, 32, BlockSpec) == SPEC


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (memory()[:63], "only 63 bytes"),
        (memory(b""), UNREADABLE),
        (memory(magic=MAGIC + 1), "another magic number"),
        (memory(magic=0), "another magic number"),
        (memory(version=LAYOUT_VERSION + 1), LAYOUT_VERSION + 1),
        (memory(more=1), f"{64 + len(TEXT)} bytes instead of {64 + len(TEXT) + 1}"),
        (memory(b"\xff" * 9), UNREADABLE),
        (memory(b"[" * 5000), UNREADABLE),
        (memory(TEXT[:-1]), UNREADABLE),
    ],
    ids=["too short", "empty", "another magic", "half created", "another version",
         "another size", "no text", "no block", "cut off"],
)  # fmt: skip
def test_what_is_no_block_is_refused_with_what_it_is(content: memoryview, found: object) -> None:
    with pytest.raises(LayoutMismatch) as caught:
        description("block", content, MAGIC, 64, BlockSpec)
    fault = caught.value
    assert (fault.path, fault.expected) == ("block", LAYOUT_VERSION)
    assert fault.found == found or (found == UNREADABLE and str(fault.found).startswith(UNREADABLE))


def new_file(folder: ShmFolder) -> tuple[Path, int]:
    """A block's file and its size."""
    block = new_block(folder.path, (DataKey("x"),), 8)
    return block.segment.path, len(block.segment)


def test_a_block_of_a_size_that_its_keys_do_not_have_is_refused(folder: ShmFolder) -> None:
    path, size = new_file(folder)
    os.truncate(path, size + PAGE)
    np.memmap(path, np.int64)[3] = size + PAGE
    with pytest.raises(LayoutMismatch) as caught:
        ActorBlock.attach(path)
    fault = caught.value
    assert (fault.path, fault.found) == (str(path), f"{size + PAGE} bytes instead of {size}")
    assert fault.expected == LAYOUT_VERSION


def test_a_file_of_another_size_is_refused_by_its_name(folder: ShmFolder) -> None:
    path, size = new_file(folder)
    os.truncate(path, size - PAGE)
    with pytest.raises(LayoutMismatch) as caught:
        ActorBlock.attach(path)
    assert caught.value.path == str(path)
    assert caught.value.found == f"{size - PAGE} bytes instead of {size}"


@pytest.mark.parametrize(("offset", "aligned"), [(0, 0), (1, 64), (63, 64), (64, 64), (65, 128)])
def test_lines_begin_at_the_next_multiple(offset: int, aligned: int) -> None:
    assert align(offset, 64) == aligned


@pytest.mark.parametrize("keys", [1, 40])
def test_headers_and_arrays_lie_one_after_the_other(keys: int) -> None:
    """Whatever the length of the description: headers on lines, arrays on pages."""
    made = tuple(DataKey(f"key{n}", FRAME, "uint8") for n in range(keys))
    spec = BlockSpec(0, made, 1000, 3, (Consumer("a", ("key0",)),))
    layout = Layout(spec)
    assert layout.text == msgspec.json.encode(spec)
    names = [*(key.name for key in made), VERSION_KEY]
    at = align(PREAMBLE_BYTES + len(layout.text), 64)
    assert layout.headers == {name: at + n * KEY_HEADER_BYTES for n, name in enumerate(names)}
    at = align(at + len(names) * KEY_HEADER_BYTES, PAGE)
    rows = align(1000 * 3 * 6, PAGE)
    assert layout.arrays == {name: at + n * rows for n, name in enumerate(names)}
    assert layout.size == at + keys * rows + align(1000 * 8, PAGE)


def test_a_key_that_there_is_not_is_named(folder: ShmFolder) -> None:
    with pytest.raises(UnknownKey) as caught:
        new_block(folder.path, (DataKey("x"),), 8).key("y")
    assert (caught.value.key, caught.value.known) == ("y", ("x", VERSION_KEY))


def test_the_header_of_a_key_says_what_it_is_and_where_its_counters_stand(
    folder: ShmFolder,
) -> None:
    """Line by line as in docs/architecture/buffer.md: two consumers, a first row that is not 0."""
    consumers = (Consumer("a", ("x",)), Consumer("b", ("x",)))
    spec = BlockSpec(0, (DataKey("x", (3,)),), 8, 2, consumers)
    block = ActorBlock.create(folder.path / "block", spec, base=5)
    words = np.memmap(folder.path / "block", np.int64)
    layout = Layout(spec)
    header = words[layout.headers["x"] // 8 :][: KEY_HEADER_BYTES // 8]
    assert header[:5].tolist() == [MAGIC, 2 * 3 * 4, 8, layout.arrays["x"], 0]
    counters = {8: 5, 9: 5, 16: 5, 24: 5, 25: 5, 26: 5, 27: 5}
    assert {at: header[at] for at in np.flatnonzero(header).tolist() if at > 3} == counters
    block.acknowledge("b", 7, 6)
    assert header[26:28].tolist() == [7, 6]


def test_a_commit_of_all_keys_says_so_before_it_is_done(folder: ShmFolder) -> None:
    block = new_block(folder.path, (DataKey("x"), DataKey("y")), 8)
    arm(block, Fuse(2))
    with pytest.raises(Killed):
        block.commit(3)
    words = np.memmap(block.segment.path, np.int64)
    assert words[5:7].tolist() == [0b111, 3]


def test_words_are_signed_and_lie_in_the_memory_itself() -> None:
    memory = memoryview(bytearray(64))
    words = words_of(memory, 16, 3)
    words[1] = -2
    assert len(words) == 3
    assert bytes(memory) == bytes(24) + (-2).to_bytes(8, "little", signed=True) + bytes(32)


def test_who_waits_for_room_can_be_woken_by_other_processes(folder: ShmFolder) -> None:
    block = new_block(folder.path, (DataKey("x"),), 8)
    fresh = Doorbell(mmap.mmap(-1, SEMAPHORE_BYTES), 0, create=True)
    assert bytes(block.segment.memory[256 : 256 + SEMAPHORE_BYTES]) == bytes(fresh.memory)
