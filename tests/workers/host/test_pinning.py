"""Pinning real processes, and not believing that it worked."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import python
from worker_hosts import needs_numactl, needs_two_cpus

from artos.errors import NotPinned
from workers.host.cpus import host_slots
from workers.host.pinning import numactl_prefix, pin, verify
from workers.host.slots import Slot

FIRST, LAST = host_slots()[0], host_slots()[-1]
ELSEWHERE = Slot(100_000)

THREADS = """if True:
    import sys, threading
    end = threading.Event()
    for _ in range(4):
        threading.Thread(target=end.wait, daemon=True).start()
    print("ready", flush=True)
    sys.stdin.readline()"""

ONE_OF_ITS_OWN = """if True:
    import os, sys, threading
    ready = threading.Event()
    def elsewhere():
        os.sched_setaffinity(0, {int(sys.argv[1])})
        ready.set()
        threading.Event().wait()
    threading.Thread(target=elsewhere, daemon=True).start()
    ready.wait()
    print("ready", flush=True)
    sys.stdin.readline()"""


def test_the_prefix_of_a_start_names_cpu_and_memory() -> None:
    assert numactl_prefix(Slot(3)) == ["numactl", "--physcpubind=3"]
    assert numactl_prefix(Slot(3, 1)) == ["numactl", "--physcpubind=3", "--membind=1"]
    assert numactl_prefix(Slot(0, 0)) == ["numactl", "--physcpubind=0", "--membind=0"]
    assert numactl_prefix(Slot(3, 1), any_cpu=True) == ["numactl", "--membind=1"]
    assert numactl_prefix(Slot(3), any_cpu=True) == []
    assert numactl_prefix(Slot(3, beside=(1, 2, 7))) == ["numactl", "--physcpubind=1-3,7"]


def test_every_thread_of_a_live_process_is_moved() -> None:
    with python("-c", THREADS) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        pin(process.pid, LAST)
        threads = [int(path.name) for path in Path(f"/proc/{process.pid}/task").iterdir()]
        assert len(threads) == 5
        assert {cpu for thread in threads for cpu in os.sched_getaffinity(thread)} == {LAST.cpu}
        pin(process.pid, FIRST)
        verify(process.pid, FIRST)


@needs_two_cpus
def test_one_thread_elsewhere_is_enough_to_be_found_out() -> None:
    with python("-c", ONE_OF_ITS_OWN, LAST.cpu) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        os.sched_setaffinity(process.pid, {FIRST.cpu})
        with pytest.raises(NotPinned, match=f"may run on {LAST.cpu}:") as raised:
            verify(process.pid, FIRST)
        assert raised.value.found[process.pid] == str(FIRST.cpu)
        assert sorted(raised.value.found.values()) == sorted([str(FIRST.cpu), str(LAST.cpu)])
        pin(process.pid, FIRST)


@needs_two_cpus
def test_who_shares_cpus_may_use_each_of_them() -> None:
    shared = Slot(FIRST.cpu, beside=(LAST.cpu,))
    with python("-c", THREADS) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        pin(process.pid, shared)
        assert os.sched_getaffinity(process.pid) == {FIRST.cpu, LAST.cpu}
        with pytest.raises(NotPinned):
            verify(process.pid, FIRST)


@needs_two_cpus
def test_a_process_that_may_run_anywhere_is_not_pinned() -> None:
    with python("-c", THREADS) as process, pytest.raises(NotPinned, match="is not pinned to CPU"):
        verify(process.pid, FIRST)


def test_a_cpu_that_is_not_there_is_said_by_the_kernel_and_told() -> None:
    with python("-c", THREADS) as process:
        with pytest.raises(NotPinned, match="not pinned to CPU 100000") as raised:
            pin(process.pid, ELSEWHERE)
        assert (raised.value.pid, raised.value.wanted) == (process.pid, "100000")


def test_a_process_that_is_gone_is_not_pinned() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    for look in (pin, verify):
        with pytest.raises(NotPinned, match="it is gone"):
            look(process.pid, FIRST)


@needs_numactl
def test_a_process_started_with_the_prefix_is_pinned_from_the_first_instruction() -> None:
    command = [*numactl_prefix(LAST), sys.executable, "-c", THREADS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == b"ready\n"
            verify(process.pid, LAST)
        finally:
            process.kill()
