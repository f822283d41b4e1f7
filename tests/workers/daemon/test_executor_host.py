"""Executors of a node as processes: opened, closed, what is wrong with one told in words."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from helpers import PATIENCE

from artos.clock import SystemClock
from artos.errors import Refused
from artos.protocol.control import (
    Assign,
    ExecutorEnded,
    FetchArchive,
    LogPiece,
    ReadNodeLog,
)
from artos.protocol.message import Message
from artos.runs.orders import ExecutorOrder, read_order
from artos.runtime.loop import Waker
from artos.system.account import SystemAccount
from artos.system.archives import Archives, name_of, pack
from artos.system.child import Child
from artos.system.pidfd import PidFd
from artos.transport.keys import Keys, new_run_keys
from workers.checkpoint.tiers import Tier
from workers.daemon import executor_host, node_accounts
from workers.daemon.executor_host import ExecutorHost
from workers.daemon.orphans import Orphans


@pytest.fixture
def host(tmp_path: Path) -> Iterator[ExecutorHost]:
    archives = Archives(tmp_path / "archives")
    host = ExecutorHost(
        "w1", lambda: (0, 1), tmp_path, archives, tmp_path / "runs", SystemClock(), 30.0
    )
    (tmp_path / "runs").mkdir()
    yield host
    host.kill()


def assign(epoch: int = 1, archive: str = "") -> Assign:
    ends = ("tcp://127.0.0.1:1", "tcp://127.0.0.1:1")
    return Assign("r", epoch, b"no plan", "/code", archive, *ends, slots=1)


@pytest.fixture
def sleeper(host: ExecutorHost, tmp_path: Path) -> Iterator[executor_host._Opened]:
    """The executor of run "s": it is open and does nothing."""
    folder = tmp_path / "runs" / "s"
    folder.mkdir()
    wanted = msgspec.structs.replace(assign(), run="s")
    order = ExecutorOrder(wanted, "w1", str(tmp_path), "", str(folder), str(folder), (0,), "")
    deaf = "import os, signal; signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32)); print()"
    with subprocess.Popen(
        [sys.executable, "-c", f"{deaf}; os.close(1); signal.sigwait([])"], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.read()
        child = Child(process, folder / "executor.log")
        opened = executor_host._Opened(order, child, PidFd(process.pid))
        host._executors["s"], host._wanted["s"] = opened, wanted
        yield opened
        process.kill()


def until_told(host: ExecutorHost) -> Message:
    with Waker() as doorbell:
        while True:
            if said := host.step():
                (message,) = said
                return message
            assert doorbell.wait(PATIENCE, host.descriptors), host


def test_logs_are_read_here_also_of_a_run_that_is_over(host: ExecutorHost, tmp_path: Path) -> None:
    logs = tmp_path / "runs" / "r" / "logs"
    logs.mkdir(parents=True)
    (logs / "actor-3.log").write_bytes(b"one\ntwo\n")
    assert host.log(ReadNodeLog(7, "r", "actor-3", 4)) == LogPiece(7, 8, content=b"two\n")
    assert (
        "no log 'executor' of run r; there are: actor-3"
        in host.log(ReadNodeLog(8, "r", "executor")).fault
    )
    assert "there are: none" in host.log(ReadNodeLog(9, "other", "actor-3")).fault


def test_code_is_fetched_once(host: ExecutorHost, tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "a.py").write_text("x = 1\n")
    name, content = pack(tmp_path / "code")
    host.assign(assign(archive=name))
    assert host.step() == [FetchArchive(name)]
    assert host.step() == []
    host.forget_requests()
    assert host.step() == [FetchArchive(name)], "the head was started again"
    Archives(tmp_path / "archives").put(name, content)
    assert host.archive_came(name, "") == []
    assert host.step() == []
    assert host.runs == {"r": 1}


def test_an_executor_whose_code_does_not_come_is_given_up(host: ExecutorHost) -> None:
    """It would be asked for without end."""
    host.assign(assign(archive="0" * 64))
    assert host.step() == [FetchArchive("0" * 64)]
    assert host.archive_came("1" * 64, "that is not here") == []
    (ended,) = host.archive_came("0" * 64, "no space left")
    assert ended == ExecutorEnded("r", 1, "it could not be opened: no space left")
    assert host.step() == []
    assert host.runs == {}


def test_code_that_is_unsafe_is_not_unpacked(host: ExecutorHost, tmp_path: Path) -> None:
    bad = b"no archive at all"
    host.assign(assign(archive=name_of(bad)))
    host.step()
    Archives(tmp_path / "archives").put(name_of(bad), bad)
    host.archive_came(name_of(bad), "")
    (ended,) = host.step()
    assert isinstance(ended, ExecutorEnded)
    assert "archive" in ended.why
    assert (host.empty, host.runs) == (True, {})


def test_an_executor_that_fails_says_why_and_waits_for_orders(host: ExecutorHost) -> None:
    """Only the head says whether it is opened again."""
    host.assign(assign())
    assert host.step() == []
    ended = until_told(host)
    assert isinstance(ended, ExecutorEnded)
    assert (ended.run, ended.epoch) == ("r", 1)
    assert "exit status 1" in ended.why
    assert "malformed" in ended.why, "its last words"
    assert host.step() == []
    assert (host.empty, host.runs) == (True, {})


def test_an_executor_of_an_older_epoch_makes_room(host: ExecutorHost) -> None:
    host.assign(assign(1))
    host.step()
    host.assign(assign(2))
    assert until_told(host).epoch == 1
    assert host.runs == {"r": 2}


def test_an_executor_that_is_closed_and_wanted_again_is_another_one(
    host: ExecutorHost, sleeper: executor_host._Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The head is not told of the old one's end: it would take that for the new one's."""
    host.unassign("s")
    host.assign(sleeper.order.assign)
    with monkeypatch.context() as patch:
        patch.setattr(Child, "died", lambda _: 0)
        assert host.step() == []
    assert host._executors["s"] is not sleeper
    assert host.runs == {"s": 1}


def test_what_is_left_of_an_earlier_executor_ends_first(tmp_path: Path) -> None:
    """Also if it came from another node, with which it shares the machine, and looks like there."""
    folder, elsewhere = tmp_path / "runs" / "r", tmp_path / "others" / "r"
    command = [sys.executable, "-c", "import time; time.sleep(600)", "-m", "workers.executor"]
    for each in (folder, elsewhere):
        (each / "logs").mkdir(parents=True)
        (each / "logs" / "executor.log").touch()
    with (
        (folder / "logs" / "executor.log").open("wb") as log,
        subprocess.Popen([*command, f"{elsewhere}/executor.json"], stdout=log, stderr=log) as old,
    ):
        try:
            assert Orphans(elsewhere, 1.0).gone(0.0)
            orphans = Orphans(folder, end_by=1.0)
            assert not orphans.gone(0.0)
            assert old.poll() is None
            assert not orphans.gone(2.0), "it is late: it is killed"
            old.wait(PATIENCE)
            assert orphans.gone(2.0)
            orphans.close()
        finally:
            old.kill()


def test_an_account_that_this_machine_lacks_is_told_with_what_to_do(
    host: ExecutorHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_accounts, "may_switch", lambda: True)
    for name, words in (("artos-none", "no account 'artos-none'"), ("root", "root's")):
        host.assign(msgspec.structs.replace(assign(), account=name))
        (ended,) = host.step()
        assert isinstance(ended, ExecutorEnded)
        assert "node w1: " in ended.why
        assert words in ended.why
        assert (host.empty, host.runs) == (True, {})


def test_a_daemon_that_may_not_switch_uses_the_runs_keys_and_has_the_log_say_so(
    host: ExecutorHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_accounts, "may_switch", lambda: False)
    keys = new_run_keys().of_executor
    host.assign(msgspec.structs.replace(assign(), account="artos-none", keys=keys))
    assert host.step() == []
    until_told(host)
    folder = tmp_path / "runs" / "r"
    assert Keys.load(folder / "keys").head == keys.head.encode()
    said = (folder / "logs" / "executor.log").read_text()
    assert "its account artos-none is not used: the worker's daemon may not switch" in said


def test_an_account_has_images_where_it_can_read_criu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = str(tmp_path)
    account = SystemAccount("me", os.geteuid(), os.getegid(), (os.getegid(),), home)
    monkeypatch.setattr(SystemAccount, "acting", lambda _: nullcontext())
    tier = Tier(False, "no CRIU was found")
    monkeypatch.setattr(executor_host, "probe", lambda: {"clone": tier})
    given, why = executor_host.with_images(account)
    assert (given, why) == (account, "there are no images on this node: no CRIU was found")

    monkeypatch.setattr(executor_host, "probe", lambda: {"clone": Tier(True, "by CRIU")})
    monkeypatch.setattr(executor_host, "find_criu", lambda: tmp_path / "criu")
    required: list[Path] = []
    monkeypatch.setattr(SystemAccount, "require", lambda _, path: required.append(path))
    given, why = executor_host.with_images(account)
    assert (given.criu, len(given.rights), why) == (str(tmp_path / "criu"), 5, "")
    assert required == [tmp_path / "criu"]

    homeless = replace(account, home=str(tmp_path / "none"))
    given, why = executor_host.with_images(homeless)
    assert given == homeless
    assert "no home of its own" in why

    def out_of_reach(_: SystemAccount, path: Path) -> None:
        raise Refused([f"the account cannot read {path}"])

    monkeypatch.setattr(SystemAccount, "require", out_of_reach)
    given, why = executor_host.with_images(account)
    assert given == account
    assert "cannot read" in why
    assert "ARTOS_CRIU" in why


def test_the_folder_of_an_executor_that_still_closes_is_kept(
    host: ExecutorHost, sleeper: executor_host._Opened, tmp_path: Path
) -> None:
    os.utime(tmp_path / "runs" / "s", (0, 0))  # the oldest
    for number in range(executor_host._MOST_RUNS):
        (tmp_path / "runs" / f"over{number}").mkdir()
    host.unassign("s")
    host.assign(assign())
    host.step()
    assert (tmp_path / "runs" / "s").exists()


def test_code_is_needed_as_long_as_an_executor_may_run_it(
    host: ExecutorHost, sleeper: executor_host._Opened
) -> None:
    host.assign(msgspec.structs.replace(sleeper.order.assign, epoch=2, archive="1" * 64))
    sleeper.order = msgspec.structs.replace(
        sleeper.order, assign=msgspec.structs.replace(sleeper.order.assign, archive="2" * 64)
    )
    assert host.archives == {"1" * 64, "2" * 64}
    host.unassign("s")
    assert host.archives == {"2" * 64}, "it still closes"


def test_slots_that_could_not_be_told_are_told_later(
    host: ExecutorHost,
    sleeper: executor_host._Opened,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(path: Path, order: ExecutorOrder) -> None:
        raise OSError(28, "no space left")

    host.assign(msgspec.structs.replace(sleeper.order.assign, slots=7))
    with monkeypatch.context() as patch:
        patch.setattr(executor_host, "write_order", full)
        host.step()
    host.step()
    file = tmp_path / "runs" / "s" / "executor.json"
    assert read_order(file, ExecutorOrder).assign.slots == 7


def test_workers_of_one_name_are_told_apart_by_what_they_are_the_owners_of(
    host: ExecutorHost, tmp_path: Path
) -> None:
    """As those of two clusters on one machine: each counts the memory of its own executors."""
    (tmp_path / "w1-2b").mkdir()
    other = ExecutorHost(
        "w1", lambda: (0,), tmp_path, Archives(tmp_path / "other"), tmp_path / "w1-2b",
        SystemClock(), 30.0,
    )  # fmt: skip
    owners = []
    for each, folder in ((host, "runs"), (other, "w1-2b")):
        each.assign(assign())
        each.step()
        owners.append(read_order(tmp_path / folder / "r" / "executor.json", ExecutorOrder).owner)
    other.kill()
    assert owners == ["runs", "w1-2b"]
