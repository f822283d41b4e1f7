"""The model block: versions come whole or not at all, whoever is reading, publishing or killed."""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np
import pytest
from buffer_helpers import Child
from helpers import PATIENCE

from artos.buffer import object_region
from artos.buffer.model_block import ModelBlock, ObjectSpec
from artos.buffer.object_region import ObjectRegion
from artos.buffer.segment import Segment
from artos.buffer.shm_folder import ShmFolder
from artos.errors import DeadlineExceeded, UnknownKey
from artos.specs.keys import ArraySpec

ARRAYS = (
    ArraySpec("body", (5000,), "int64"),
    ArraySpec("head", (7, 3), "int64"),
    ArraySpec("learner.moments", (5000,), "int64"),
)
PUBLIC = ("body", "head")
READERS = 8


def new_region(
    folder: ShmFolder, readers: int = 2, slots: int = 0, arrays: tuple[ArraySpec, ...] = ARRAYS
) -> ObjectRegion:
    spec = ObjectSpec("model_param", arrays, readers, slots or readers + 2)
    return ModelBlock.create(folder.path / "model", [spec])["model_param"]


def publish(region: ObjectRegion, version: int, firing: int = 0) -> None:
    slot = region.allocate()
    for array in slot.arrays.values():
        array[...] = version
    region.commit(slot, version, firing)


def checksum(arrays: dict[str, Any]) -> int:
    """The version all public weights agree on."""
    values = {int(v) for name in PUBLIC for v in (arrays[name].min(), arrays[name].max())}
    assert len(values) == 1, f"torn or mixed weights: {values}"
    return values.pop()


# -- real processes ----------------------------------------------------------------------------


@pytest.mark.processes
@pytest.mark.parametrize("slots", [READERS + 2, 4], ids=["a slot for each", "few slots"])
def test_weights_are_never_torn_or_mixed(folder: ShmFolder, slots: int) -> None:
    """One process publishes as fast as it can under eight that bind; one of these is killed."""
    region = new_region(folder, READERS, slots)
    block_path = folder.path / "model"
    counts = np.ndarray((READERS, 8), np.int64, Segment.create(folder.path / "c", 4096).memory)
    publish(region, 0)

    def read(number: int) -> None:
        mine = ModelBlock.attach(block_path)["model_param"]
        private: dict[str, Any] = {}
        last = -1
        while counts[number, 1] == 0:
            slot = mine.bind(number, private)
            counts[number, 3] += slot.arrays is private
            assert checksum(slot.arrays) == slot.version == slot.firing - 1 or slot.version == 0
            assert slot.version >= last, "versions never go back"
            if slot.version != last and number % 2:
                os.sched_yield()  # let the publisher go on while this slot is held
                assert checksum(slot.arrays) == slot.version
            counts[number, 0] += 1
            counts[number, 2] += slot.version != last
            last = slot.version

    children = [Child(lambda n=number: read(n)) for number in range(READERS)]
    try:
        version, victim = 0, children[3]
        end = time.monotonic() + PATIENCE
        while counts[:, 2].min() < 25 and time.monotonic() < end:
            version += 1
            publish(region, version, version + 1)
            if victim.status is None and counts[3, 2] >= 10:
                victim.kill()
                region.unpin(3)
                counts[3, 2] = 25
        counts[:, 1] = 1
        assert [child.join() for child in children] == [-9 if c is victim else 0 for c in children]
        assert counts[:, 2].min() >= 25
        assert version > 25
        if slots > READERS:
            assert counts[:, 3].max() == 0, "nobody copies"
    finally:
        for child in children:
            child.kill()


@pytest.mark.processes
def test_a_publisher_killed_at_any_moment_leaves_a_whole_version(folder: ShmFolder) -> None:
    region = new_region(folder)
    publish(region, 0)

    def publish_for_ever() -> None:
        mine = ModelBlock.attach(folder.path / "model")["model_param"]
        while True:
            publish(mine, mine.version + 1)

    for _ in range(20):
        before = region.version
        with Child(publish_for_ever) as child:
            while region.version < before + 5:
                assert child.status is None
            child.kill()
        slot = region.bind(0, {})
        assert checksum(slot.arrays) == slot.version == region.version
        assert (region.newest.arrays["learner.moments"] == region.version).all()
        publish(region, region.version + 1)


# -- the two dangerous moments, on purpose -----------------------------------------------------


def between(monkeypatch: pytest.MonkeyPatch, action: Any) -> None:
    """Run ``action`` at the next fence: after a mark was set, before pins are looked at again."""

    def once() -> None:
        monkeypatch.undo()
        action()

    monkeypatch.setattr(object_region, "fence", once)


class LatePins:
    """Pins that let ``action`` happen after the version was looked up and before the pin is set."""

    def __init__(self, pins: Any, action: Any) -> None:
        self._pins, self._action = pins, action

    def __setitem__(self, at: int, value: int) -> None:
        action, self._action = self._action, lambda: None
        action()
        self._pins[at] = value

    def tolist(self) -> list[int]:
        return self._pins.tolist()


def test_a_slot_reused_before_it_is_pinned_is_noticed(folder) -> None:
    region = new_region(folder, readers=1, slots=3)
    publish(region, 0)
    reader = ModelBlock.attach(folder.path / "model")["model_param"]
    reader._pins = LatePins(reader._pins, lambda: [publish(region, v) for v in range(1, 5)])
    slot = reader.bind(0, {})
    assert checksum(slot.arrays) == slot.version == 4


def test_a_slot_being_written_when_it_is_pinned_is_noticed(folder) -> None:
    region = new_region(folder, readers=1, slots=3)
    publish(region, 0)
    reader = ModelBlock.attach(folder.path / "model")["model_param"]
    started = []

    def begin_to_overwrite() -> None:
        publish(region, 1)
        started.append(region.allocate())
        started[0].arrays["body"][:100] = 2

    reader._pins = LatePins(reader._pins, begin_to_overwrite)
    slot = reader.bind(0, {})
    assert started[0].number == 0, "that is the slot the reader was about to use"
    assert checksum(slot.arrays) == slot.version == 1


def test_a_slot_pinned_while_it_is_marked_is_left_alone(folder, monkeypatch) -> None:
    region = new_region(folder, readers=1, slots=3)
    publish(region, 0)
    held = region.slots[0].held(0)
    publish(region, 1)

    def late_pin() -> None:
        region._pins[0] = held.number

    between(monkeypatch, late_pin)
    slot = region.allocate()
    assert slot.number not in (held.number, region.newest.number)
    assert region.slots[held.number].version == 0
    assert checksum(held.arrays) == 0


def test_a_pinned_slot_says_its_version_even_while_the_writer_marks_it(folder) -> None:
    region = new_region(folder)
    publish(region, 7, firing=3)
    slot = region.bind(0, {})
    region.slots[slot.number].stamp(-1, 3)
    assert (slot.version, slot.firing) == (7, 3)


# -- single promises ---------------------------------------------------------------------------


def test_a_bound_version_stays_until_the_next_binding(folder: ShmFolder) -> None:
    region = new_region(folder)
    publish(region, 0)
    slot = region.bind(1, {})
    for version in range(1, 20):
        publish(region, version)
        assert checksum(slot.arrays) == slot.version == 0
    assert checksum(region.bind(1, {}).arrays) == 19


def test_a_dead_readers_pin_is_released(folder: ShmFolder) -> None:
    region = new_region(folder, readers=2, slots=3)
    publish(region, 0)
    region.pin(0)
    publish(region, 1)
    region.pin(1)
    publish(region, 2)
    with pytest.raises(DeadlineExceeded, match="pinned by readers 0, 1"):
        region.allocate(seconds=0.01)
    ModelBlock.attach(folder.path / "model")["model_param"].unpin(0)
    publish(region, 3)
    assert checksum(region.pin(0).arrays) == 3


def test_binding_before_the_first_version_gives_up(folder: ShmFolder) -> None:
    region = new_region(folder)
    assert region.version == -1
    with pytest.raises(DeadlineExceeded, match="model_param"):
        region.pin(0, seconds=0.01)


def test_few_slots_are_used_in_place_while_the_writer_keeps_one(folder: ShmFolder) -> None:
    region = new_region(folder, readers=8, slots=4)
    private: list[dict[str, Any]] = [{} for _ in range(8)]
    held = []
    for version in range(4):
        publish(region, version, firing=9)
        held += [region.bind(reader, private[reader]) for reader in (2 * version, 2 * version + 1)]
    assert [slot.version for slot in held] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert [checksum(slot.arrays) for slot in held] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert [bool(copied) for copied in private] == [False] * 4 + [True] * 4
    for version in range(4, 20):
        publish(region, version)  # nobody is waited for
    assert [checksum(slot.arrays) for slot in held] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert [region.bind(reader, private[reader]).version for reader in (0, 1)] == [19, 19]
    assert [bool(copied) for copied in private[:2]] == [True, False], "version 0 is let go"


def test_copies_hold_no_slot_and_no_private_state(folder: ShmFolder) -> None:
    region = new_region(folder, readers=8, slots=2)
    publish(region, 5, firing=9)
    private: dict[str, Any] = {}
    copy = region.bind(2, private)
    assert (region._pins == -1).all()
    assert (copy.version, copy.firing) == (5, 9)
    assert copy.arrays is private
    assert set(private) == set(PUBLIC)
    body = private["body"]
    publish(region, 6)
    assert checksum(region.bind(2, private).arrays) == 6
    assert private["body"] is body, "room is made once"


def test_readers_that_pin_at_once_do_not_take_the_writers_slot(folder: ShmFolder) -> None:
    """One finds two slots held where it saw one when it looked the version up."""
    region = new_region(folder, readers=3, slots=4)
    publish(region, 0)
    region.bind(0, {})
    publish(region, 1)
    late = ModelBlock.attach(folder.path / "model")["model_param"]

    def another() -> None:
        publish(region, 2)
        region.bind(1, {})

    late._pins = LatePins(late._pins, another)
    private: dict[str, Any] = {}
    assert checksum(late.bind(2, private).arrays) == 1
    assert private
    assert (region._pins >= 0).tolist() == [True, True, False]


def test_there_are_as_many_slots_as_are_cheap() -> None:
    small, large = (ArraySpec("w", (1000,)),), (ArraySpec("w", (4_000_000,)),)
    assert ObjectSpec.sized("m", small, 16).slots == 18
    assert ObjectSpec.sized("m", large, 16).slots == 4
    assert ObjectSpec.sized("m", small, 1000).slots == 4, "a slot's number must fit one byte"


def test_every_slot_number_fits_the_version_word(folder: ShmFolder) -> None:
    region = new_region(folder, readers=254, slots=256, arrays=(ArraySpec("body", (1,), "int64"),))
    for version in range(254):
        publish(region, version)
        region.pin(version)
    publish(region, 254)
    publish(region, 255)
    assert region.newest.version == region.version == 255
    assert {int(region.slots[pin].arrays["body"][0]) for pin in region._pins} == set(range(254))


def test_objects_lie_side_by_side(folder: ShmFolder) -> None:
    specs = [ObjectSpec.sized(name, ARRAYS, 2) for name in ("model_param", "statistics")]
    block = ModelBlock.create(folder.path / "model", specs)
    publish(block["model_param"], 1)
    publish(block["statistics"], 2)
    other = ModelBlock.attach(folder.path / "model")
    assert [checksum(other[name].bind(0, {}).arrays) for name in ("model_param", "statistics")] == [
        1,
        2,
    ]
    with pytest.raises(UnknownKey, match="statistics"):
        block["optimiser"]
