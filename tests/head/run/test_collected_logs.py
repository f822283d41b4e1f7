"""Logs of other nodes in the folder of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from artos.protocol.steering import ExecutorLog
from head.run.collected_logs import CollectedLogs


def test_each_node_has_a_folder(tmp_path: Path, logged: list[str]) -> None:
    logs = CollectedLogs(tmp_path, 4)
    for node, name, text in (
        ("w1", "actor-3", b"a"),
        ("w2", "actor-3", b"b"),
        ("w1", "executor", b""),
    ):
        logs.keep(node, ExecutorLog(name, text))
    logs.keep("w1", ExecutorLog("actor-3", b"newer"))
    assert {path.relative_to(tmp_path).as_posix(): path.read_bytes()
            for path in tmp_path.rglob("*.log")} == {
        "w1/actor-3.log": b"newer", "w2/actor-3.log": b"b", "w1/executor.log": b"",
    }  # fmt: skip
    assert logged == []


def test_whose_logs_did_not_come_is_said(tmp_path: Path, logged: list[str]) -> None:
    logs = CollectedLogs(tmp_path, 4)
    for node in ("w1", "w2", "w3"):
        logs.expect(node)
    logs.keep("w1", ExecutorLog("executor", b"all is well"))
    logs.close({"w2": "it was silent for 15 s"})
    logs.close({})
    assert [line.partition("; `artos logs RUN --log ")[::2] for line in logged] == [
        ("the logs of node w2 are missing here: it was silent for 15 s",
         "w2/executor` (or w2/actor-0, ...) asks the node for them"),
        ("the logs of node w3 are missing here: its executor did not close in time",
         "w3/executor` (or w3/actor-0, ...) asks the node for them"),
    ]  # fmt: skip
    assert (tmp_path / "w2" / "missing.log").read_text() == f"{logged[0]}\n"
    assert not (tmp_path / "w1" / "missing.log").exists()


def test_an_executor_that_was_opened_again_sends_what_both_said(
    tmp_path: Path, logged: list[str]
) -> None:
    logs = CollectedLogs(tmp_path, 4)
    logs.expect("w1")
    logs.keep("w1", ExecutorLog("executor"))
    logs.expect("w1")
    logs.close({"w1": "its executor is gone"})
    assert (tmp_path / "w1" / "missing.log").exists()
    logs.expect("w1")
    logs.keep("w1", ExecutorLog("executor"))
    logs.close({})
    assert len(logged) == 1
    assert not (tmp_path / "w1" / "missing.log").exists()


@pytest.mark.parametrize(
    "log", [ExecutorLog("actor-4"), ExecutorLog("x"), ExecutorLog("executor", bytes(2 << 20))]
)
def test_what_no_executor_sends_is_not_kept(
    log: ExecutorLog, tmp_path: Path, logged: list[str]
) -> None:
    CollectedLogs(tmp_path, 4).keep("w1", log)
    assert [*tmp_path.iterdir()] == []
    assert logged == [f"node w1 sent an invalid log: {log.name}"]


def test_a_full_disk_is_logged_and_no_more(tmp_path: Path, logged: list[str]) -> None:
    (tmp_path / "w1").write_text("in the way")
    CollectedLogs(tmp_path, 4).keep("w1", ExecutorLog("executor"))
    assert "cannot be written" in logged[0]
