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
from buffer_helpers import FRAME, KEYS, History, new_block
from sampler_helpers import CUT, NAMES

from artos.buffer import doorbell as doorbells
from artos.buffer.doorbell import SEMAPHORE_BYTES, Doorbell
from artos.buffer.layout import Consumer
from artos.buffer.mailbox import Mailbox, mailbox_bytes
from artos.buffer.samplers.frames import Rows, Sources
from artos.buffer.samplers.n_step import NStep
from artos.buffer.samplers.prioritised import PrioritisedSampler
from artos.buffer.samplers.transitions import first_of_version
from artos.buffer.samplers.uniform import UniformSampler
from artos.buffer.shm_folder import ShmFolder
from artos.buffer.version_runs import version_runs
from artos.errors import DeadlineExceeded, Refused
from artos.specs.keys import VERSION_KEY, DataKey
from artos.system.shm import free_bytes

# -- doorbell and mailbox ----------------------------------------------------------------------


@pytest.mark.parametrize("now", [100.25, 101.25])
def test_a_wait_ends_so_many_seconds_from_now(monkeypatch: pytest.MonkeyPatch, now: float) -> None:
    doorbell = Doorbell(mmap.mmap(-1, SEMAPHORE_BYTES), 0, create=True)
    ends = []

    def sleep(address: int, clock: int, until: Any) -> int:
        ends.append((until._obj.seconds, until._obj.nanoseconds))
        return 0

    monkeypatch.setattr(doorbells, "_clockwait", sleep)
    monkeypatch.setattr(doorbells.time, "monotonic", lambda: now)
    assert doorbell.wait(2.5)
    assert ends == [(int(now) + 2, 750_000_000)]


def test_a_bell_that_cannot_be_made_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doorbells, "_libc", SimpleNamespace(sem_init=lambda *_: -1))
    monkeypatch.setattr(doorbells.ctypes, "get_errno", lambda: errno.ENOSYS)
    with pytest.raises(OSError, match="sem_init failed") as caught:
        Doorbell(mmap.mmap(-1, SEMAPHORE_BYTES), 0, create=True)
    assert caught.value.errno == errno.ENOSYS


def test_a_wait_that_goes_wrong_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    doorbell = Doorbell(mmap.mmap(-1, SEMAPHORE_BYTES), 0, create=True)
    monkeypatch.setattr(doorbells, "_clockwait", lambda *_: -1)
    for code, wrong in ((errno.EINVAL, True), (errno.EINTR, False), (errno.ETIMEDOUT, False)):
        monkeypatch.setattr(doorbells.ctypes, "get_errno", lambda code=code: code)
        if wrong:
            with pytest.raises(OSError, match=os.strerror(code)) as caught:
                doorbell.wait(1.0)
            assert caught.value.errno == code
        else:
            assert not doorbell.wait(1.0)


class Bell:
    """Remembers how it was waited for; rings as often as it is told to."""

    def __init__(self, *deeds: Any) -> None:
        self.waits: list[float] = []
        self._deeds = list(deeds)

    def wait(self, seconds: float) -> bool:
        self.waits.append(seconds)
        if self._deeds:
            self._deeds.pop(0)()
            return True
        return False

    def ring(self) -> None: ...


def test_a_message_that_is_there_is_not_waited_for() -> None:
    mailbox = Mailbox(memoryview(mmap.mmap(-1, mailbox_bytes(64))), 0, 64, "test", create=True)
    mailbox.doorbell = doorbell = Bell(  # type: ignore[assignment]
        lambda: None, lambda: mailbox.put(b"second"), lambda: mailbox.put(b"third")
    )
    mailbox.put(b"first")
    assert mailbox.get(3.0) == b"first"
    assert doorbell.waits == []
    assert mailbox.get(3.0) == b"second", "a ring without a message is of an old one"
    assert doorbell.waits == [3.0, 3.0]
    assert mailbox.get(4.0) == b"third"
    assert mailbox.get(5.0) is None
    assert doorbell.waits[2:] == [4.0, 5.0]


def test_who_opens_a_mailbox_takes_no_ring_away() -> None:
    memory = memoryview(mmap.mmap(-1, mailbox_bytes(64)))
    Mailbox(memory, 0, 64, "writer", create=True).put(b"message")
    reader = Mailbox(memory, 0, 64, "reader")
    assert reader.doorbell.wait(0)
    assert reader.take() == b"message"


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


@pytest.mark.parametrize("kind", [UniformSampler, PrioritisedSampler])
def test_looking_ahead_where_final_observations_are_nowhere_is_refused(
    folder: ShmFolder, kind: Any
) -> None:
    """The next row of a truncated episode is of another one there."""
    block = new_block(folder.path, KEYS, 8)
    History(block).write(4)
    for ahead in ({"next_keys": NAMES}, {"n_step": NStep(n=1, gamma=0.9)}):
        with pytest.raises(ValueError, match="final_observations=True, or count 'truncations'"):
            kind({0: block}, NAMES, 4, **ahead)
    found = kind({0: block}, NAMES, 4, next_keys=NAMES, n_step=CUT, seed=0).sample()
    ended = found["terminations"] | found["truncations"]
    assert found["n_step.discounts"].tolist() == [pytest.approx(0.9 * (not over)) for over in ended]


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
    who = "a, b" if consumers else "no consumer"
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
            runs = [(end, (versions[end - 1],)) for end in (*ends, stop)]
            assert list(version_runs(block, start, stop)) == runs


# -- segments ----------------------------------------------------------------------------------


def test_free_bytes_are_those_that_we_may_use(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen = SimpleNamespace(f_bavail=10, f_bfree=99, f_frsize=4096, f_bsize=1)
    monkeypatch.setattr(os, "statvfs", lambda folder: seen)
    assert free_bytes(tmp_path) == 40_960


@pytest.mark.parametrize(
    ("allowed", "free"), [("200000", 200_000 - 81_920), ("10000000", 286_720), ("1", 0)]
)
def test_of_shared_memory_no_more_is_free_than_is_allowed(
    allowed: str, free: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What is taken counts, whoever has it: a kubelet looks at the whole volume."""
    monkeypatch.setenv("ARTOS_SHM_BYTES", allowed)
    seen = SimpleNamespace(f_bavail=70, f_bfree=80, f_blocks=100, f_frsize=4096)
    monkeypatch.setattr(os, "statvfs", lambda folder: seen)
    monkeypatch.setenv("ARTOS_SHM", str(tmp_path))
    assert free_bytes(tmp_path) == free
    monkeypatch.setenv("ARTOS_SHM", "/proc")
    assert free_bytes(tmp_path) == 286_720, "of another filesystem all is"


def test_what_is_no_number_of_bytes_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ARTOS_SHM_BYTES", "8Gi")
    with pytest.raises(Refused, match="ARTOS_SHM_BYTES is '8Gi': write a number of bytes"):
        free_bytes(tmp_path)


def test_poison_is_in_every_row(folder: ShmFolder) -> None:
    block = new_block(folder.path, (DataKey("x"), DataKey("y", (2,), "float64")), 5, envs=3)
    assert all(np.isnan(block.arrays[name]).all() for name in ("x", "y"))
