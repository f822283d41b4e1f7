"""A run process on a worker: what it is handed, and what the head is told."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from artos.protocol.control import CarryRun, FetchArchive, FinishRun, RunEnded
from artos.protocol.message import Message
from artos.runs.orders import RunOrder
from artos.system.archives import Archives, pack
from artos.system.faults import Faults
from artos.system.pidfd import PidFd
from artos.system.signals import CLOSE
from artos.transport.keys import Keys, make_keys, new_run_keys
from workers.daemon.node_accounts import NodeAccounts
from workers.daemon.run_carrier import RunCarrier

pytestmark = pytest.mark.processes
KEYS = new_run_keys()


@pytest.fixture
def carrier(tmp_path: Path) -> Iterator[RunCarrier]:
    """One whose run processes print their order, which is a process of its own each time."""
    make_keys(keys := tmp_path / "keys")
    archives, folder = Archives(tmp_path / "code"), tmp_path / "w1.runs"
    head = "tcp://127.0.0.1:9"
    accounts = NodeAccounts("w1")
    made = RunCarrier(head, Keys.load(keys), archives, folder, Faults(), accounts, "json.tool")
    yield made
    made.kill()


def carry(tmp_path: Path, epoch: int = 1, archive: str = "") -> CarryRun:
    return CarryRun("r1", epoch, {"seed": 3}, archive, str(tmp_path / "runs" / "r1"), KEYS)


def steps(carrier: RunCarrier) -> list[Message]:
    """What the head is told once something has happened."""
    end = time.monotonic() + 60
    while not (told := carrier.step()):
        assert time.monotonic() < end
        time.sleep(0.01)
    return told


def test_a_process_has_the_keys_of_its_run_and_leaves_none(
    carrier: RunCarrier, tmp_path: Path
) -> None:
    carrier.carry(carry(tmp_path))
    assert carrier.runs == {"r1": 1}
    assert carrier.step() == []
    files = {path.name for path in (tmp_path / "w1.runs").rglob("*.key_secret")}
    assert files == {"head.key_secret", "any.key_secret", "r1.key_secret"}
    (ended,) = steps(carrier)
    assert isinstance(ended, RunEnded)
    assert (ended.run, ended.epoch, ended.status) == ("r1", 1, 0)
    assert carrier.runs == {}
    assert [*(tmp_path / "w1.runs").iterdir()] == []
    printed = (tmp_path / "runs" / "r1" / "logs" / "run.log").read_text()
    order = msgspec.convert(json.loads(printed), RunOrder)
    assert (order.peer, order.host, order.request) == ("run:r1/1", "127.0.0.1", {"seed": 3})


def test_code_that_is_not_here_is_asked_for_once(carrier: RunCarrier, tmp_path: Path) -> None:
    (user := tmp_path / "user").mkdir()
    (user / "mine.py").touch()
    name, content = pack(user)
    carrier.carry(carry(tmp_path, archive=name))
    assert carrier.step() == [FetchArchive(name)]
    assert carrier.step() == []
    Archives(tmp_path / "code").put(name, content)
    assert carrier.archive_came(name, "") == []
    assert carrier.archives == {name}
    assert carrier.step() == []
    assert carrier.archives == {name}, "its process runs it"
    (ended,) = steps(carrier)
    assert carrier.archives == set()
    assert isinstance(ended, RunEnded)
    assert ended.status == 0


def test_a_process_whose_code_does_not_come_is_given_up(
    carrier: RunCarrier, tmp_path: Path
) -> None:
    carrier.carry(carry(tmp_path, archive="0" * 64))
    assert carrier.step() == [FetchArchive("0" * 64)]
    why = "its process could not be started: no space left"
    assert carrier.archive_came("0" * 64, "no space left") == [RunEnded("r1", 1, None, why)]
    assert carrier.step() == []
    assert carrier.runs == {}


def test_what_cannot_begin_or_is_stopped_before_is_told(
    carrier: RunCarrier, tmp_path: Path
) -> None:
    (tmp_path / "runs").touch()  # where the folder of runs should be
    carrier.carry(carry(tmp_path))
    (ended,) = carrier.step()
    assert isinstance(ended, RunEnded)
    assert ended.status is None
    assert "could not be started" in ended.why
    carrier.carry(carry(tmp_path, epoch=2))
    assert carrier.finish(FinishRun("r1", 1)) == [], "that was an earlier one"
    (stopped,) = carrier.finish(FinishRun("r1", 2))
    assert isinstance(stopped, RunEnded)
    assert (stopped.epoch, stopped.status, carrier.runs) == (2, 130, {})


def test_a_process_is_ended_at_once_and_by_a_newer_one(carrier: RunCarrier, tmp_path: Path) -> None:
    for epoch in (1, 2):
        carrier.carry(carry(tmp_path, epoch))
        if epoch == 1:
            carrier.step()
    told: list[Message] = []
    while carrier.runs:
        told += steps(carrier)
    assert [each.epoch for each in told if isinstance(each, RunEnded)] == [1, 2]


def test_who_is_told_again_to_finish_is_not_hurried(
    carrier: RunCarrier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only who asks twice wants it at once."""
    sent: list[int] = []
    carrier.carry(carry(tmp_path))
    carrier.step()
    monkeypatch.setattr(PidFd, "signal", lambda process, number: sent.append(number))
    again, asked = FinishRun("r1", 1, again=True), FinishRun("r1", 1)
    for told in (again, again, asked, again):
        assert carrier.finish(told) == []
    monkeypatch.undo()
    assert sent == [CLOSE, CLOSE]
