"""How a run process ended is known to a head that was away, whatever the clock says."""

from __future__ import annotations

import errno
import json
import os
import select
import signal
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from artos.errors import Refused
from artos.runs.checkpoint import MANIFEST
from artos.runs.orders import RunOrder, read_order
from artos.system.account import SystemAccount
from artos.system.archives import Archives, name_of, pack
from artos.transport.keys import Keys, new_run_keys
from head.daemon import run_host, status_api, user_accounts
from head.daemon.run import Run
from head.daemon.run_host import RunHost
from head.daemon.user_accounts import UserAccounts
from head.records import summary_file

pytestmark = pytest.mark.processes


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """One that an earlier process finished, and that is to go on from its checkpoint."""
    folder = tmp_path / "run"
    (folder / "checkpoint").mkdir(parents=True)
    (folder / "checkpoint" / MANIFEST).write_text("{}")
    summarise(folder, "done", when=1 << 40, epoch=1)
    return Run("run", {}, str(folder), resume=True, epoch=2)


def summarise(folder: Path, outcome: str, when: int, epoch: int) -> None:
    """A summary that was written at any time, by the clock."""
    told = {"outcome": outcome, "epoch": epoch}
    (folder / "summary.json").write_text(json.dumps(told))
    os.utime(folder / "summary.json", (when, when))


@pytest.fixture
def host(tmp_path: Path) -> Iterator[RunHost]:
    orders = tmp_path / "orders"
    orders.mkdir()
    head = f"ipc://{tmp_path}/head"
    with RunHost(orders, Archives(tmp_path / "code"), head, "127.0.0.1", tmp_path) as host:
        yield host


def killed(host: RunHost, run: Run) -> None:
    """Begin the run, and kill its process at once."""
    host.begin(run)
    host.signal(run.name, signal.SIGKILL)
    assert select.select([host], [], [], 60.0)[0]
    assert host.gone() == [run.name]
    assert host.ended(run).status == -signal.SIGKILL
    assert host.gone() == []


def test_an_earlier_process_does_not_speak_for_one_that_was_killed(host: RunHost, run: Run) -> None:
    killed(host, run)
    assert host.ended(run).status is None
    found = summary_file.read(Path(run.folder))
    assert found
    assert found[1].outcome == "done", "what it ended with before is still there"
    assert status_api.summary(run) is None


def test_a_process_that_finished_says_so(host: RunHost, run: Run) -> None:
    killed(host, run)
    summarise(Path(run.folder), "interrupted", when=0, epoch=2)
    assert host.ended(run).status == 130
    assert status_api.summary(run) == {"outcome": "interrupted", "epoch": 2}


def test_a_head_that_gives_way_kills_what_is_here_alone(host: RunHost, run: Run) -> None:
    told: list[object] = []
    host._tell = lambda node, message: told.append(message)
    host.carried["far"] = Run("far", {}, "", carrier="w1")
    host.begin(run)
    host.kill_here()
    assert select.select([host], [], [], 60.0)[0]
    assert host.ended(run).status == -signal.SIGKILL
    assert told == [], "a run on a worker node is the next head's"


def test_a_run_whose_account_is_not_used_has_its_own_keys_and_says_so(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_accounts, "may_switch", lambda: False)
    run.account, run.keys = "artos-none", new_run_keys()
    accounts = UserAccounts({"ann": "artos-none"}, tmp_path)
    with RunHost(
        tmp_path / "orders", Archives(tmp_path / "code"), f"ipc://{tmp_path}/head", "127.0.0.1",
        tmp_path / "of-the-cluster", accounts=accounts,
    ) as host:  # fmt: skip
        host.begin(run)
        order = read_order(tmp_path / "orders" / "run-2.json", RunOrder)
        assert "its account artos-none is not used: the head is user" in order.note
        assert Keys.load(Path(order.keys)).head == run.keys.head.encode()
        host.signal(run.name, signal.SIGKILL)
        assert select.select([host], [], [], 60.0)[0]
        host.ended(run)
        assert [*(tmp_path / "orders").iterdir()] == []
        monkeypatch.setattr(run_host, "start", no_process)
        with pytest.raises(Refused, match=r"cannot begin: .* no more processes"):
            host.begin(run)
        assert [*(tmp_path / "orders").iterdir()] == [], "its keys, for one"


def no_process(*_: Any, **__: Any) -> Any:
    raise OSError(errno.EAGAIN, "no more processes")


def test_code_that_other_runs_of_an_account_need_stays(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise OSError(errno.EAGAIN, "no process more")

    account = SystemAccount("me", os.geteuid(), os.getegid(), (), str(tmp_path))
    monkeypatch.setattr(SystemAccount, "acting", lambda _: nullcontext())
    monkeypatch.setattr(user_accounts, "may_switch", lambda: False)
    accounts = UserAccounts({"ann": "me"}, tmp_path)
    monkeypatch.setattr(accounts, "of", lambda _: account)
    monkeypatch.setattr(accounts, "place", lambda _: tmp_path / "own")
    monkeypatch.setattr(accounts, "give", lambda *_: None)
    monkeypatch.setattr(run_host, "start", fails)
    (user := tmp_path / "user").mkdir()
    (user / "mine.py").touch()
    all_code, own = Archives(tmp_path / "code"), Archives(tmp_path / "own" / "code")
    run.archive, content = pack(user)
    all_code.put(run.archive, content)
    names = [name_of(bytes([number])) for number in range(17)]
    for number, name in enumerate(names):
        own.put(name, bytes([number]))
    for name in names[:2]:
        os.utime(own.folder / f"{name}.tar", (1.0, 1.0))
    with (
        RunHost(
            tmp_path / "orders", all_code, f"ipc://{tmp_path}/head", "127.0.0.1", tmp_path,
            accounts=accounts,
        ) as host,
        pytest.raises(Refused, match="no process more"),
    ):  # fmt: skip
        host.begin(run, {names[0]})
    assert [name in own for name in (*names[:2], run.archive)] == [True, False, True]
