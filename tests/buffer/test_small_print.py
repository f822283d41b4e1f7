"""What the small parts of the buffer promise beside the usual case: limits, defaults, leftovers."""

from __future__ import annotations

import errno
import mmap
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from buffer_helpers import FRAME, new_block

from artos.buffer import doorbell, model_block
from artos.buffer.doorbell import SEMAPHORE_BYTES, Doorbell
from artos.buffer.frames import Rows, Sources
from artos.buffer.layout import LAYOUT_VERSION, Consumer
from artos.buffer.mailbox import Mailbox, mailbox_bytes
from artos.buffer.model_block import ModelBlock, ObjectSpec
from artos.buffer.n_step import NStep
from artos.buffer.segment import ShmFolder, free_bytes
from artos.buffer.transitions import first_of_version
from artos.buffer.uniform import UniformSampler
from artos.errors import DeadlineExceeded, LayoutMismatch
from artos.spec import VERSION_KEY, ArraySpec, DataKey

# -- doorbell and mailbox ----------------------------------------------------------------------


@pytest.mark.parametrize(("rings_at", "sleeps"), [(0, False), (1, False), (5, False), (50, True)])
def test_who_spins_notices_a_ring_without_sleeping(
    monkeypatch: pytest.MonkeyPatch, rings_at: int, sleeps: bool
) -> None:
    """It looks once, then for as long as it was told; each look takes a second here."""
    bell = Doorbell(mmap.mmap(-1, SEMAPHORE_BYTES), 0, create=True)
    now, looks, slept = [100.0], [], []

    def look(address: int) -> int:
        looks.append(address)
        now[0] += 1.0
        return 0 if len(looks) > rings_at else -1

    monkeypatch.setattr(doorbell, "_trywait", look)
    monkeypatch.setattr(doorbell, "_clockwait", lambda *_: slept.append(1) or 0)
    monkeypatch.setattr(doorbell.time, "monotonic", lambda: now[0])
    assert bell.wait(60.0, spin=10.0)
    assert bool(slept) == sleeps
    assert len(looks) == (11 if sleeps else 1 + rings_at)


def test_who_does_not_ask_for_it_does_not_spin(monkeypatch: pytest.MonkeyPatch) -> None:
    bell = Doorbell(mmap.mmap(-1, SEMAPHORE_BYTES), 0, create=True)
    monkeypatch.setattr(bell, "_spin", lambda seconds: pytest.fail("it spins"))
    assert not bell.wait(0.0)
    bell.ring()
    assert bell.wait(0.0)


@pytest.mark.parametrize("now", [100.25, 101.25])
def test_a_wait_ends_so_many_seconds_from_now(monkeypatch: pytest.MonkeyPatch, now: float) -> None:
    bell = Doorbell(mmap.mmap(-1, SEMAPHORE_BYTES), 0, create=True)
    ends = []

    def sleep(address: int, clock: int, until: Any) -> int:
        ends.append((until._obj.seconds, until._obj.nanoseconds))
        return 0

    monkeypatch.setattr(doorbell, "_clockwait", sleep)
    monkeypatch.setattr(doorbell.time, "monotonic", lambda: now)
    assert bell.wait(2.5)
    assert ends == [(int(now) + 2, 750_000_000)]


def test_a_wait_that_goes_wrong_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    bell = Doorbell(mmap.mmap(-1, SEMAPHORE_BYTES), 0, create=True)
    monkeypatch.setattr(doorbell, "_clockwait", lambda *_: -1)
    for code, wrong in ((errno.EINVAL, True), (errno.EINTR, False), (errno.ETIMEDOUT, False)):
        monkeypatch.setattr(doorbell.ctypes, "get_errno", lambda code=code: code)
        if wrong:
            with pytest.raises(OSError, match=os.strerror(code)) as caught:
                bell.wait(1.0)
            assert caught.value.errno == code
        else:
            assert not bell.wait(1.0)


class Bell:
    """Remembers how it was waited for; rings as often as it is told to."""

    def __init__(self, *deeds: Any) -> None:
        self.waits: list[tuple[float, float]] = []
        self._deeds = list(deeds)

    def wait(self, seconds: float, *, spin: float) -> bool:
        self.waits.append((seconds, spin))
        if self._deeds:
            self._deeds.pop(0)()
            return True
        return False

    def ring(self) -> None: ...


def test_a_message_that_is_there_is_not_waited_for() -> None:
    mailbox = Mailbox(memoryview(mmap.mmap(-1, mailbox_bytes(64))), 0, 64, "test", create=True)
    mailbox.bell = bell = Bell(  # type: ignore[assignment]
        lambda: None, lambda: mailbox.put(b"second"), lambda: mailbox.put(b"third")
    )
    mailbox.put(b"first")
    assert mailbox.get(3.0) == b"first"
    assert bell.waits == []
    assert mailbox.get(3.0, spin=0.5) == b"second", "a ring without a message is of an old one"
    assert bell.waits == [(3.0, 0.5), (3.0, 0.5)]
    assert mailbox.get(4.0) == b"third"
    assert mailbox.get(5.0) is None
    assert bell.waits[2:] == [(4.0, 0.0), (5.0, 0.0)], "nobody spins who did not ask for it"


# -- model block -------------------------------------------------------------------------------


def objects(*readers: int) -> list[ObjectSpec]:
    arrays = (ArraySpec("weights", (3, 2), "float32"), ArraySpec("count", (), "int64"))
    return [ObjectSpec(f"object{n}", arrays, each, 2) for n, each in enumerate(readers)]


def publish(block: ModelBlock, version: int) -> None:
    for region in block.objects.values():
        slot = region.allocate()
        for array in slot.arrays.values():
            array[...] = version
        region.commit(slot, version)


def test_only_the_pins_of_who_is_gone_are_dropped(folder: ShmFolder) -> None:
    """Also where objects have different numbers of readers."""
    block = ModelBlock.create(folder.path / "model", objects(4, 2))
    publish(block, 0)
    for name, readers in (("object0", 4), ("object1", 2)):
        for reader in range(readers):
            block[name].pin(reader)
    block.release(1)
    block.release(2)
    block.release(4)
    pinned = [(region._pins >= 0).tolist() for region in block.objects.values()]
    assert pinned == [[True, False, False, True], [True, False]]


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
    with pytest.raises(LayoutMismatch, match=f"of {size} bytes in {size + extra}") as caught:
        ModelBlock.attach(path)
    assert caught.value.path == str(path)


def test_a_model_block_of_a_size_that_its_objects_do_not_have_is_refused(folder: ShmFolder) -> None:
    path = folder.path / "model"
    size = len(ModelBlock.create(path, objects(2)).segment)
    os.truncate(path, size + 4096)
    np.memmap(path, np.int64)[3] = size + 4096
    with pytest.raises(LayoutMismatch, match=f"of {size} bytes") as caught:
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
    monkeypatch.setattr(model_block, "fence", lambda: region._pins.__setitem__(0, older.number))
    assert not region._claim(older)
    assert (older.version, older.firing) == (5, 8)
    region.unpin(0)
    monkeypatch.setattr(model_block, "fence", lambda: None)
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

    monkeypatch.setattr(model_block.time, "sleep", sleep)
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


# -- n-step ------------------------------------------------------------------------------------


def test_looking_ahead_stops_at_any_end_and_gives_floats(folder: ShmFolder) -> None:
    """Two keys that terminate and two that truncate, in different rows."""
    ends = ("died", "fell", "cut", "late")
    keys = (DataKey("rewards", (), "float64"), *(DataKey(name, (), "bool") for name in ends))
    block = new_block(folder.path, keys, 16)
    block.allocate(14)
    block.arrays["rewards"][:] = 1.0
    for name, step in zip(ends, (2, 5, 8, 11), strict=True):
        block.arrays[name][:] = False
        block.arrays[name][step] = True
    block.commit(14)
    look = NStep(n=4, gamma=0.5, terminated=ends[:2], truncated=ends[2:])
    steps = np.arange(13)
    rows = Rows(Sources([block]), np.zeros(13, np.int64), steps, np.zeros(13, np.int64))
    found = look.look_ahead(rows, np.full(13, 14))
    assert found.lengths.tolist() == [3, 2, 1, 3, 2, 1, 3, 2, 1, 3, 2, 1, 1]
    assert found.steps.tolist() == (steps + found.lengths).tolist()
    sums = {1: 1.0, 2: 1.5, 3: 1.75}
    assert found.returns.tolist() == [sums[n] for n in found.lengths.tolist()]
    factors = {1: 0.5, 2: 0.25, 3: 0.125}
    assert found.discounts.tolist() == [0.0] * 6 + [factors[n] for n in found.lengths.tolist()[6:]]
    assert found.returns.dtype == found.discounts.dtype == np.float32


# -- actor block, samplers ---------------------------------------------------------------------


def test_rows_kept_for_stacks_are_no_room(folder: ShmFolder) -> None:
    keys = (DataKey("frames", FRAME, "uint8", stack=3), DataKey("ages", (), "uint8"))
    assert new_block(folder.path, keys, 10).room() == 8


@pytest.mark.parametrize("consumers", [(), (Consumer("a", ("x",)), Consumer("b", ("w", "x")))])
def test_who_holds_the_room_is_named_with_the_key_that_is_furthest_behind(
    folder: ShmFolder, consumers: tuple[Consumer, ...]
) -> None:
    keys = (DataKey("w"), DataKey("x"))
    block = new_block(folder.path, keys, 4, consumers=consumers, on_full="wait")
    block.commit(block.allocate(4) + 4)
    for name, header in block.headers.items():
        header.set_released(1 if name == "x" else 3)
    who = "a, b" if consumers else "nobody"
    with pytest.raises(DeadlineExceeded, match=rf"'x' from step 1 are held by {who}$"):
        block.allocate(4, 0.0)


def test_the_first_policy_has_version_0(folder: ShmFolder) -> None:
    block = new_block(folder.path, (DataKey("x"),), 8)
    block.allocate(4)
    block.arrays[VERSION_KEY][:] = 0
    block.commit(4)
    sampler = UniformSampler({0: block}, ("x",), 8, seed=0, max_lag=0)
    assert set(sampler.sample()[VERSION_KEY].tolist()) == {0}


def test_the_first_row_of_a_version_wherever_the_wrap_is(folder: ShmFolder) -> None:
    """Rows 5 to 12 of versions 5, 7, 7, 9, 9, ... in a block of eight, against a plain search."""
    block = new_block(folder.path, (DataKey("x"),), 8)
    block.reserve(13, block._names)
    versions = {step: step | 1 for step in range(5, 13)}
    for step, version in versions.items():
        block.arrays[VERSION_KEY][block.index(step)] = version
    for start in range(5, 13):
        for stop in range(start, 14):
            for wanted in range(4, 15):
                found = (s for s in range(start, stop) if versions[s] >= wanted)
                assert first_of_version(block, start, stop, wanted) == next(found, stop)


def test_rows_are_cut_where_their_version_changes_wherever_the_wrap_is(folder: ShmFolder) -> None:
    """Rows 5 to 12 of versions 1, 1, 2, 2, 2, 5, 7, 7 in a block of eight, against a plain loop."""
    block = new_block(folder.path, (DataKey("x"),), 8)
    versions = dict(zip(range(5, 13), (1, 1, 2, 2, 2, 5, 7, 7), strict=True))
    for step, version in versions.items():
        block.arrays[VERSION_KEY][block.index(step)] = version
    for start in range(5, 13):
        for stop in range(start + 1, 14):
            ends = [s for s in range(start + 1, stop) if versions[s] != versions[s - 1]]
            runs = [(end, versions[end - 1]) for end in (*ends, stop)]
            assert list(block.version_runs(start, stop)) == runs
            of = versions[start], versions[stop - 1]
            assert block.versions(start, stop) == of


# -- segments ----------------------------------------------------------------------------------


def test_free_bytes_are_those_that_we_may_use(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen = SimpleNamespace(f_bavail=10, f_bfree=99, f_frsize=4096, f_bsize=1)
    monkeypatch.setattr(os, "statvfs", lambda folder: seen)
    assert free_bytes(tmp_path) == 40_960


def test_poison_is_in_every_row(folder: ShmFolder) -> None:
    block = new_block(folder.path, (DataKey("x"), DataKey("y", (2,), "float64")), 5, envs=3)
    assert all(np.isnan(block.arrays[name]).all() for name in ("x", "y"))
