"""The model block: where everything lies, what a slot says, what meets and what is refused."""

from __future__ import annotations

import os
from typing import Any

import msgspec
import numpy as np
import pytest

from artos.buffer import object_region
from artos.buffer.layout import LAYOUT_VERSION, LINE, PAGE, align
from artos.buffer.model_block import ModelBlock, ObjectSpec
from artos.buffer.shm_folder import ShmFolder
from artos.errors import LayoutMismatch, UnknownKey
from artos.specs.keys import ArraySpec


def objects(*readers: int) -> list[ObjectSpec]:
    arrays = (ArraySpec("weights", (3, 2), "float32"), ArraySpec("count", (), "int64"))
    return [ObjectSpec(f"object{n}", arrays, each, 2) for n, each in enumerate(readers)]


def publish(block: ModelBlock, version: int) -> None:
    for region in block.objects.values():
        slot = region.allocate()
        for array in slot.arrays.values():
            array[...] = version
        region.commit(slot, version)


def test_a_copy_has_the_types_and_the_number_of_its_slot(folder: ShmFolder) -> None:
    region = ModelBlock.create(folder.path / "model", objects(4))["object0"]
    publish(ModelBlock.attach(folder.path / "model"), 7)
    private: dict[str, Any] = {}
    copy = region.bind(0, private)
    assert copy.arrays is private
    assert {name: array.dtype.name for name, array in private.items()} == {
        "weights": "float32",
        "count": "int64",
    }
    assert copy.number == region.newest.number


@pytest.mark.parametrize("extra", [-4096, 4096])
def test_a_model_block_of_another_size_is_refused(folder: ShmFolder, extra: int) -> None:
    path = folder.path / "model"
    block = ModelBlock.create(path, objects(2))
    size = path.stat().st_size
    assert len(block.segment) == size
    os.truncate(path, size + extra)
    with pytest.raises(LayoutMismatch, match=f"{size + extra} bytes instead of {size}") as caught:
        ModelBlock.attach(path)
    assert caught.value.path == str(path)


def test_a_model_block_of_a_size_that_its_objects_do_not_have_is_refused(folder: ShmFolder) -> None:
    path = folder.path / "model"
    size = len(ModelBlock.create(path, objects(2)).segment)
    os.truncate(path, size + 4096)
    np.memmap(path, np.int64)[3] = size + 4096
    with pytest.raises(LayoutMismatch, match=f"{size + 4096} bytes instead of {size}") as caught:
        ModelBlock.attach(path)
    assert (caught.value.path, caught.value.expected) == (str(path), LAYOUT_VERSION)


def test_a_slot_that_is_pinned_while_it_is_claimed_is_given_back_as_it_was(
    folder: ShmFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    region = ModelBlock.create(folder.path / "model", objects(1))["object0"]
    for version, firing in ((5, 8), (6, 9)):
        slot = region.allocate()
        region.commit(slot, version, firing)
    older = region.slots[0]
    monkeypatch.setattr(object_region, "fence", lambda: region._pins.__setitem__(0, older.number))
    assert not region._claim(older)
    assert (older.version, older.firing) == (5, 8)
    region.unpin(0)
    monkeypatch.setattr(object_region, "fence", lambda: None)
    region._pins[0] = -1
    assert region._claim(older)
    assert (older.version, older.firing) == (-1, 8)


def test_a_writer_looks_again_soon_for_a_slot_that_is_let_go(
    folder: ShmFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    region = ModelBlock.create(folder.path / "model", objects(1))["object0"]
    region.commit(region.allocate(), 0)
    assert region.made_by() == (0, 0), "of no firing"
    region._pins[0] = 1
    slept = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        region.unpin(0)

    monkeypatch.setattr(object_region.time, "sleep", sleep)
    assert region.allocate().number == 1
    assert len(slept) == 1
    assert slept[0] < 0.01


def test_who_made_the_newest_version_also_if_another_comes_meanwhile(folder: ShmFolder) -> None:
    region = ModelBlock.create(folder.path / "model", objects(1))["object0"]
    assert region.made_by() == (-1, 0)
    region.commit(region.allocate(), 0, firing=7)
    assert region.made_by() == (0, 7)
    late = ModelBlock.attach(folder.path / "model")["object0"]

    class Slots(list[Any]):
        def __getitem__(self, number: Any) -> Any:
            if late.version == 0:
                late.commit(late.allocate(), 1, firing=9)
            return super().__getitem__(number)

    region.slots = Slots(region.slots)
    assert region.made_by() == (1, 9)


def test_a_reader_looks_again_soon_for_the_first_version(
    folder: ShmFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    region = ModelBlock.create(folder.path / "model", objects(1))["object0"]
    slept = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        region.commit(region.slots[1], 3)

    monkeypatch.setattr(object_region.time, "sleep", sleep)
    assert region.pin(0).version == 3
    assert len(slept) == 1
    assert slept[0] < 0.01


def test_an_object_that_there_is_not_is_named(folder: ShmFolder) -> None:
    with pytest.raises(UnknownKey) as caught:
        ModelBlock.create(folder.path / "model", objects(1))["weights"]
    assert (caught.value.key, caught.value.known) == ("weights", ("object0",))


def named_so_long(length: int) -> list[ObjectSpec]:
    """Three objects whose description takes so many bytes."""
    first, *others = objects(2, 3, 1)
    missing = length - len(msgspec.json.encode([first, *others]))
    return [msgspec.structs.replace(first, name=first.name + "x" * missing), *others]


@pytest.mark.parametrize("text", [1000, PAGE - 32, PAGE - 31, 3 * PAGE])
def test_words_pins_and_arrays_lie_where_readers_of_the_file_expect_them(
    folder: ShmFolder, text: int
) -> None:
    """Whatever the length of the description before them, also where it just fits the page."""
    path = folder.path / "model"
    specs = named_so_long(text)
    block = ModelBlock.create(path, specs)
    words = np.memmap(path, np.int64)
    at = align(32 + text, PAGE)
    for spec, region in zip(specs, block.objects.values(), strict=True):
        header = words[at // 8 :]
        assert header[0] == -1, "no version"
        assert [slot.firing for slot in region.slots] == [0, 0]
        region.commit(region.slots[1], 5, firing=6)
        region.pin(spec.readers - 1)
        assert header[0] == 5 << 8 | 1
        lines = header[:: LINE // 8]
        assert header[LINE // 8 : 3 * LINE // 8].reshape(2, -1)[:, :2].tolist() == [[-1, 0], [5, 6]]
        assert lines[3 : 3 + spec.readers].tolist() == [-1] * (spec.readers - 1) + [1]
        at += align(LINE * (3 + spec.readers), PAGE)
        for slot in region.slots:
            slot.arrays["weights"][:] = at
            slot.arrays["count"][...] = at
            assert (words[at // 8 :].view(np.float32)[:6] == at).all()
            assert words[(at + LINE) // 8] == at
            at += PAGE
    assert at == len(block.segment)
    assert list(ModelBlock.attach(path).objects) == [spec.name for spec in specs]


@pytest.mark.parametrize(("readers", "slots"), [(254, 256), (255, 4)])
def test_a_slots_number_fits_one_byte(readers: int, slots: int) -> None:
    small = [ArraySpec("weights", (1,), "float32")]
    assert ObjectSpec.sized("model_param", small, readers).slots == slots


@pytest.mark.parametrize(("more", "slots"), [(0, 8), (1, 4)])
def test_a_slot_for_everybody_may_take_64_mib_and_no_more(more: int, slots: int) -> None:
    large = [ArraySpec("weights", ((8 << 20) + more,), "uint8")]
    assert ObjectSpec.sized("model_param", large, 6).slots == slots
