"""Past versions: those that belong to a version are there with it, and the writer never waits."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from artos.buffer.model_block import MOST_PAST, ModelBlock, ObjectSpec
from artos.buffer.object_region import ObjectSlot
from artos.buffer.past_versions import KeepingRegion, past_of
from artos.buffer.shm_folder import ShmFolder
from artos.specs.keys import ArraySpec

ARRAYS = (ArraySpec("params", (4,)), ArraySpec("learner.moments", (4,)))
LARGE = (ArraySpec("params", (9 << 20,)),)


@pytest.fixture
def folder() -> Iterator[ShmFolder]:
    made = ShmFolder.create("test")
    yield made
    made.remove()


def region_of(folder: ShmFolder, spec: ObjectSpec) -> KeepingRegion:
    region = ModelBlock.create(folder.path / "model", [spec])[spec.name]
    assert isinstance(region, KeepingRegion)
    return region


def publish(region: KeepingRegion, version: int) -> None:
    slot = region.allocate(0.0)
    slot.arrays["params"][:] = version
    region.commit(slot, version)


def versions(slots: list[ObjectSlot]) -> list[int]:
    assert all((slot.arrays["params"] == slot.version).all() for slot in slots)
    return [slot.version for slot in slots]


@given(st.integers(0, 1000), st.integers(1, 9), st.integers(1, 60))
def test_the_past_of_a_version(version: int, history: int, every: int) -> None:
    multiples = [each for each in range(version) if each % every == 0]
    assert past_of(version, history, every) == multiples[::-1][:history]


@pytest.mark.parametrize("every", [1, 3])
def test_each_version_has_its_past(folder: ShmFolder, every: int) -> None:
    region = region_of(folder, ObjectSpec.sized("m", ARRAYS, 3, 4, every))
    for version in range(40):
        publish(region, version)
        bound = region.bind_all(0, {}, {})
        assert versions(bound) == [version, *past_of(version, 4, every)]
        region.unpin(0)


def test_who_keeps_an_old_version_does_not_stop_the_writer(folder: ShmFolder) -> None:
    region = region_of(folder, ObjectSpec.sized("m", ARRAYS, 3, 4, 1))
    for version in range(10):
        publish(region, version)
    old = region.bind_all(0, {}, {})
    for version in range(10, 60):
        publish(region, version)
        region.bind_all(1, {}, {})
    assert versions(old) == [9, 8, 7, 6, 5]


def test_where_slots_are_few_they_are_copied_once(folder: ShmFolder) -> None:
    spec = ObjectSpec("m", ARRAYS, 3, 2 + 2 * 3, 2, 5)
    region, private, copies = region_of(folder, spec), {}, {}
    for version in range(18):
        publish(region, version)
        region.bind_all(version % 2, {}, {})
    region.pin_all(2)
    publish(region, 18)
    first = region.bind_all(1, private, copies)
    assert versions(first) == [18, 15, 10]
    assert set(copies) == {15, 10}
    kept = copies[15]
    for version in range(19, 23):
        publish(region, version)
    assert versions(region.bind_all(1, private, copies)) == [22, 20, 15]
    assert copies[15] is kept
    assert set(copies) == {20, 15}


def test_a_reader_that_died_lets_all_go(folder: ShmFolder) -> None:
    region = region_of(folder, ObjectSpec.sized("m", ARRAYS, 2, 3, 1))
    for version in range(8):
        publish(region, version)
    region.pin_all(1)
    region.unpin(1)
    words = np.array(region._of_readers)
    assert (words == -1).all()


def test_a_writer_that_died_is_followed(folder: ShmFolder) -> None:
    """Before it could keep what was the newest: the next one does, which attaches the block."""
    region = region_of(folder, ObjectSpec.sized("m", ARRAYS, 2, 2, 2))
    for version in range(3):
        publish(region, version)
    region.allocate().arrays["params"][:] = 99
    successor = ModelBlock.attach(folder.path / "model")["m"]
    assert isinstance(successor, KeepingRegion)
    for version in range(3, 6):
        publish(successor, version)
        assert versions(successor.pin_all(0)) == [version, *past_of(version, 2, 2)]


def test_what_was_kept_elsewhere_is_there_before_its_version(folder: ShmFolder) -> None:
    region = region_of(folder, ObjectSpec.sized("m", ARRAYS, 2, 2, 10))
    publish(region, 7)
    for version in (20, 10):
        slot = region.allocate()
        slot.arrays["params"][:] = version
        region.keep(slot, version)
        assert versions(region.pin_all(0)) == [7]
    publish(region, 25)
    assert versions(region.pin_all(0)) == [25, 20, 10]
    assert set(region.kept) == {10, 20}


def test_readers_beside_a_quick_writer_never_see_a_mix(folder: ShmFolder) -> None:
    region = region_of(folder, ObjectSpec.sized("m", ARRAYS, 2, 3, 2))
    publish(region, 0)
    stop = threading.Event()

    def write() -> None:
        version = 1
        while not stop.is_set():
            publish(region, version)
            version += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        last, private, copies = 0, {}, {}
        while last < 300:
            newest, *pasts = versions(region.bind_all(0, private, copies))
            assert pasts == past_of(newest, 3, 2)
            last = newest
    finally:
        stop.set()
        writer.join()


def test_slots_for_as_much_of_the_past_as_there_may_be() -> None:
    assert ObjectSpec.sized("m", ARRAYS, 3, 8).slots == 3 + 2 + 18
    assert ObjectSpec.sized("m", LARGE, 3, MOST_PAST).slots == 256
