"""Logs that lie on workers, and those that are in the run's folder: asked for like one another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from test_head_daemon import Head, joined

from artos.protocol import control
from head.daemon.run import Run


@pytest.fixture
def head(tmp_path: Path) -> Iterator[Head]:
    with ExitStack() as stack:
        yield Head(tmp_path, stack)


@pytest.fixture
def run(head: Head) -> Run:
    """One whose actor 3 lives on w1, and whose logs of w0 were collected."""
    assert head.daemon is not None
    folder = head.folder / "runs" / "r1"
    (folder / "logs" / "w0").mkdir(parents=True)
    (folder / "logs" / "learner.log").write_text("learning\n")
    (folder / "logs" / "w0" / "actor-3.log").write_text("it was here\n")
    run = Run("r1", {}, str(folder), state="running", places={3: "w1"})
    head.daemon._scheduler.submit(run)
    return run


def test_a_log_comes_from_the_node_where_its_actor_is(head: Head, run: Run) -> None:
    worker, other, user = joined(head, "w1"), joined(head, "w2"), head.peer("user:owner/1")
    user.say(control.ReadLogs("r1", 5, "actor-3", number=7))
    head.until(lambda: worker.last(control.ReadNodeLog), worker)
    wanted = worker.last(control.ReadNodeLog)
    assert wanted == control.ReadNodeLog(wanted.number, "r1", "actor-3", 5)
    other.say(control.LogPiece(wanted.number, 9, content=b"made up"))
    worker.say(control.LogPiece(wanted.number + 1, 9, content=b"asked by nobody"))
    worker.say(control.LogPiece(wanted.number, 9, content=b"four"))
    worker.say(control.LogPiece(wanted.number, 9, content=b"again"))
    head.until(lambda: user.heard, user)
    assert user.heard == [
        control.Answer({"text": "four", "next": 9, "state": "running", "ended": False}, number=7)
    ]
    user.heard.clear()
    user.say(control.ReadLogs("r1", 0, "w1/executor"))
    head.until(lambda: worker.last(control.ReadNodeLog).log == "executor", worker)
    worker.say(
        control.LogPiece(worker.last(control.ReadNodeLog).number, fault="node w1 has no log")
    )
    head.until(lambda: user.heard, user)
    assert user.heard == [control.Answer(fault="node w1 has no log")]


def test_a_log_that_is_here_needs_no_node(head: Head, run: Run) -> None:
    """The learner's always is, and an actor's once its executor has closed, or its node is gone."""
    user = head.peer("user:owner/1")

    def text(log: str) -> str:
        answer = head.ask(user, control.ReadLogs("r1", 0, log))
        return str(answer.fault or answer.data["text"])

    assert text("learner") == "learning\n"
    assert text("") == ""
    assert text("actor-3") == "it was here\n"
    joined(head, "w1")
    assert text("actor-9") == "run r1 has no actor 9 on any node now"
    run.end("done", "")
    run.places = {}
    assert text("actor-3") == "it was here\n"
    assert text("w0/actor-3") == "it was here\n"
    assert "no log 'actor-9'; there are: learner, run, w0/actor-3" in text("actor-9")
    assert "no log '../../secret'" in text("../../secret")


def test_what_was_not_collected_is_asked_for_when_the_run_is_over(head: Head, run: Run) -> None:
    """As where an executor was killed: its worker keeps its logs for a while."""
    worker, user = joined(head, "w1"), head.peer("user:owner/1")
    run.end("done", "")
    run.places = {}
    for content, ended in ((b"its last words", False), (b"", True)):
        user.heard.clear()
        worker.heard.clear()
        user.say(control.ReadLogs("r1", 0, "w1/actor-3"))
        head.until(lambda: worker.last(control.ReadNodeLog), worker)
        wanted = worker.last(control.ReadNodeLog)
        assert (wanted.run, wanted.log) == ("r1", "actor-3")
        worker.say(control.LogPiece(wanted.number, 14, content=content))
        head.until(lambda: user.heard, user)
        (answer,) = user.heard
        assert answer.data == {
            "text": content.decode(), "next": 14, "state": "done", "ended": ended
        }  # fmt: skip


def test_a_worker_that_does_not_answer_is_given_up(
    head: Head, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("head.daemon.pending._SECONDS", 0.0)
    joined(head, "w1")
    answer = head.ask(head.peer("user:owner/1"), control.ReadLogs("r1", 0, "actor-3"))
    assert "node w1 did not answer" in answer.fault
    answer = head.ask(head.peer("user:owner/1"), control.ReadLogs("r1", 0, "w1/../x"))
    assert answer.fault
