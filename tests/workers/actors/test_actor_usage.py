"""The books of a workload's actors, on real processes where the kernel does the counting."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from helpers import python
from worker_hosts import until

from artos.clock import ManualClock
from workers.actors.usage import Accounts, StartStats

# Uses as many CPU seconds as it is told to, line by line, and says so each time.
WORKING = """if True:
    import sys, time
    for line in sys.stdin:
        end = time.process_time() + float(line)
        while time.process_time() < end:
            pass
        print("done", flush=True)"""


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def accounts(clock: ManualClock) -> Accounts:
    return Accounts(clock)


@contextmanager
def working() -> Iterator[subprocess.Popen[str]]:
    with python("-c", WORKING) as process:
        work(process, 0.0)
        yield process


def work(process: subprocess.Popen[str], seconds: float) -> None:
    assert process.stdin
    assert process.stdout
    process.stdin.write(f"{seconds}\n")
    process.stdin.flush()
    assert process.stdout.readline() == "done\n"


# -- starts ------------------------------------------------------------------------------------


def test_starts_are_counted_by_kind(accounts: Accounts) -> None:
    for hundredths in range(100, 0, -1):
        accounts.started("clone", hundredths / 100)
    accounts.started("cold", 1.5)
    assert accounts.starts() == {
        "clone": StartStats(100, 0.505, 0.95),
        "cold": StartStats(1, 1.5, 1.5),
    }


def test_of_very_many_starts_all_are_counted_and_the_latest_described(accounts: Accounts) -> None:
    for _ in range(10_000):
        accounts.started("unpark", 9.0)
    for _ in range(5_000):
        accounts.started("unpark", 0.001)
    assert accounts.starts() == {"unpark": StartStats(15_000, 0.001, 0.001)}


def test_nothing_started_has_no_statistics(accounts: Accounts) -> None:
    assert accounts.starts() == {}


# -- CPU ---------------------------------------------------------------------------------------


def test_cpu_seconds_of_one_actor_go_on_from_process_to_process(accounts: Accounts) -> None:
    for total in (0.3, 0.6):
        with working() as process:
            accounts.watch(4, process.pid)
            work(process, 0.3)
            assert accounts.used_seconds(4) >= total - 0.05
            accounts.unwatch(4)
    used = accounts.used_seconds(4)
    assert used == accounts.all_used_seconds()


def test_what_a_process_used_before_it_was_watched_counts(accounts: Accounts) -> None:
    with working() as process:
        work(process, 0.2)
        accounts.watch(0, process.pid)
        assert accounts.used_seconds(0) >= 0.15


def test_a_process_that_has_ended_is_read_until_it_is_reaped(accounts: Accounts) -> None:
    with working() as process:
        accounts.watch(0, process.pid)
        work(process, 0.2)
        process.kill()
        until("it is a zombie", lambda: _is_zombie(process.pid))
        accounts.unwatch(0)
        assert accounts.used_seconds(0) >= 0.15


def test_of_a_process_reaped_too_early_the_last_reading_stays(accounts: Accounts) -> None:
    with working() as process:
        accounts.watch(0, process.pid)
        work(process, 0.2)
        seen = accounts.used_seconds(0)
        process.kill()
        process.wait()
        accounts.unwatch(0)
        assert accounts.used_seconds(0) == seen >= 0.15


def test_a_new_process_takes_over_from_one_that_was_not_given_up(accounts: Accounts) -> None:
    with working() as first, working() as second:
        accounts.watch(0, first.pid)
        work(first, 0.2)
        accounts.watch(0, second.pid)
        work(second, 0.2)
        assert accounts.used_seconds(0) >= 0.35


def test_all_actors_are_summed_with_those_that_are_gone(accounts: Accounts) -> None:
    with working() as first, working() as second:
        accounts.watch(0, first.pid)
        accounts.watch(1, second.pid)
        work(first, 0.2)
        work(second, 0.2)
        accounts.unwatch(0)
        assert accounts.all_used_seconds() >= 0.35


def test_a_process_that_is_gone_has_used_nothing_that_can_be_told(accounts: Accounts) -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    accounts.watch(0, process.pid)
    assert accounts.used_seconds(0) == 0.0
    accounts.unwatch(0)
    accounts.unwatch(0)
    assert accounts.all_used_seconds() == 0.0


# -- parking -----------------------------------------------------------------------------------


def test_parked_memory_is_counted_over_time(accounts: Accounts, clock: ManualClock) -> None:
    accounts.parked(0, 150.0)
    clock.advance(2.0)
    accounts.parked(1, 100.0)
    assert accounts.parked_mb_seconds() == 300.0
    clock.advance(1.0)
    accounts.unparked(0)
    assert accounts.parked_mb_seconds() == 550.0
    clock.advance(1.0)
    accounts.unparked(1)
    clock.advance(9.0)
    assert accounts.parked_mb_seconds() == 650.0


def test_moving_to_another_tier_goes_on_with_what_that_one_keeps(
    accounts: Accounts, clock: ManualClock
) -> None:
    accounts.parked(0, 150.0)
    clock.advance(2.0)
    accounts.parked(0, 1.0)
    clock.advance(10.0)
    accounts.unparked(0)
    accounts.unparked(0)
    assert accounts.parked_mb_seconds() == 310.0


def test_an_actor_that_computes_while_parked_burns_cpu(
    accounts: Accounts, clock: ManualClock
) -> None:
    with working() as process:
        accounts.watch(0, process.pid)
        accounts.parked(0, 150.0, runs=True)
        work(process, 0.3)
        clock.advance(1.0)
        assert not accounts.burns(0), "known when the pause is over"
        accounts.unparked(0)
        assert accounts.burns(0)


def test_an_actor_that_sleeps_while_parked_does_not(accounts: Accounts, clock: ManualClock) -> None:
    with working() as process:
        accounts.watch(0, process.pid)
        work(process, 0.3)
        accounts.parked(0, 150.0, runs=True)
        clock.advance(1.0)
        accounts.unparked(0)
        work(process, 0.3)
        assert not accounts.burns(0)


def test_a_pause_in_which_it_could_not_run_says_nothing(
    accounts: Accounts, clock: ManualClock
) -> None:
    with working() as process:
        accounts.watch(0, process.pid)
        accounts.parked(0, 150.0, runs=True)
        work(process, 0.3)
        clock.advance(1.0)
        for _ in range(20):  # frozen
            accounts.parked(0, 150.0)
            clock.advance(5.0)
            accounts.unparked(0)
        assert accounts.burns(0), "it would again"


def test_an_actor_that_has_become_quiet_is_forgiven(accounts: Accounts, clock: ManualClock) -> None:
    with working() as process:
        accounts.watch(0, process.pid)
        accounts.parked(0, 150.0, runs=True)
        work(process, 0.3)
        clock.advance(1.0)
        accounts.unparked(0)
        for _ in range(5):
            accounts.parked(0, 150.0, runs=True)
            clock.advance(1.0)
            accounts.unparked(0)
        assert not accounts.burns(0)


def _is_zombie(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] == "Z"
