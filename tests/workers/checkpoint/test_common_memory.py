"""A sleeping process's memory moves to a file: it does not notice, and its own pages are few."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from disks import needs_mount, small_disk

from artos.errors import ShmTooSmall
from workers.checkpoint.criu import common_memory
from workers.checkpoint.criu.common_memory import SUPPORTED, share

PROGRAM = """
import ctypes, os, random, signal, sys, threading
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
held = [random.Random(n).randbytes(50_000) for n in range(400)]  # 20 MB, on the heap and beside it
gate = threading.Event()
second = threading.Thread(target=gate.wait, daemon=True)
second.start()
total = sum(map(sum, held))
print("ready", total, flush=True)
while True:
    signal.sigwait({signal.SIGUSR1})
    assert second.is_alive()
    again = sum(map(sum, held))
    held.append(random.Random(len(held)).randbytes(50_000))
    more = bytearray(4 << 20)  # the heap and its mappings still grow
    print(again, len(more), flush=True)
    total = again
"""


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


pytestmark = pytest.mark.skipif(
    not SUPPORTED or os.geteuid() != 0, reason="needs root on x86-64 (ptrace of a stranger)"
)


def answer(process: subprocess.Popen[str]) -> list[str]:
    assert process.stdout is not None
    return process.stdout.readline().split()


def own_kb(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Anonymous:"))


def asleep(pid: int) -> None:
    while Path(f"/proc/{pid}/syscall").read_text().startswith("running"):
        os.sched_yield()


def test_it_goes_on_with_the_same_memory_and_owns_little_of_it(
    sleeper: subprocess.Popen[str], tmp_path: Path
) -> None:
    total = answer(sleeper)[1]
    asleep(sleeper.pid)
    before = own_kb(sleeper.pid)
    moved = share(sleeper.pid, tmp_path / "memory")
    assert moved > 20_000_000
    assert own_kb(sleeper.pid) < before - 20_000
    sleeper.send_signal(signal.SIGUSR1)
    assert answer(sleeper) == [total, str(4 << 20)]
    sleeper.send_signal(signal.SIGUSR1)
    assert int(answer(sleeper)[0]) > int(total)
    assert (tmp_path / "memory").stat().st_mode & 0o077 == 0


def test_what_it_writes_afterwards_is_its_own(
    sleeper: subprocess.Popen[str], tmp_path: Path
) -> None:
    answer(sleeper)
    asleep(sleeper.pid)
    file = tmp_path / "memory"
    share(sleeper.pid, file)
    content = file.read_bytes()
    sleeper.send_signal(signal.SIGUSR1)
    answer(sleeper)
    assert file.read_bytes() == content


def test_one_that_cannot_be_moved_goes_on_as_it_was(
    sleeper: subprocess.Popen[str], tmp_path: Path
) -> None:
    total = answer(sleeper)[1]
    asleep(sleeper.pid)
    (tmp_path / "memory").touch()
    with pytest.raises(FileExistsError):
        share(sleeper.pid, tmp_path / "memory")
    sleeper.send_signal(signal.SIGUSR1)
    assert answer(sleeper) == [total, str(4 << 20)]


@pytest.mark.parametrize("told", [True, False])
@needs_mount
def test_where_there_is_no_room_nothing_is_left_and_it_goes_on_as_it_was(
    sleeper: subprocess.Popen[str], tmp_path: Path, told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    total = answer(sleeper)[1]
    asleep(sleeper.pid)
    if not told:  # others write to it meanwhile
        monkeypatch.setattr(common_memory, "free_bytes", lambda _: 1 << 40)
    with small_disk(tmp_path / "disk", "4m") as disk:
        with pytest.raises(ShmTooSmall if told else OSError):
            share(sleeper.pid, disk / "memory")
        assert [*disk.iterdir()] == []
    sleeper.send_signal(signal.SIGUSR1)
    assert answer(sleeper) == [total, str(4 << 20)]


def test_a_process_that_is_gone_is_refused(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    with pytest.raises(OSError, match=str(process.pid)):
        share(process.pid, tmp_path / "memory")
