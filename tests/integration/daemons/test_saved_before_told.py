"""No answer says what is not on the disk; what cannot be saved is taken back and was never there.

A head whose turns the test takes; then real heads, killed in the middle of a burst.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from helpers import PATIENCE
from real_cluster import Cluster
from test_head_daemon import Head, Peer, joined, plain_of

from artos.protocol import control
from artos.transport.keys import Keys
from artos.transport.messenger import Messenger
from head.daemon import rows
from head.daemon.run import Run
from head.daemon.run_host import Ended, RunHost

NO_ROOM = OSError(28, "No space left on device")


@pytest.fixture
def head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Head]:
    """One whose runs get no process."""
    monkeypatch.setattr(RunHost, "begin", lambda *_: None)
    with ExitStack() as stack:
        yield Head(tmp_path, stack)


@pytest.fixture
def user(head: Head) -> Peer:
    return head.peer("user:owner/1")


@pytest.fixture
def full(head: Head, user: Peer, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The disk is full, until this is undone."""

    def fails(*_: object) -> None:
        raise NO_ROOM

    head.ask(user, control.ListRuns())
    monkeypatch.setattr("head.daemon.rows.put", fails)
    return monkeypatch


def submission(name: str, ticket: str = "", **more: str) -> control.Submit:
    request = {"ticket": ticket or name, "workload": "ppo", "run_dir": name, **more}
    return control.Submit(request)


def runs(head: Head) -> dict[str, dict[str, Any]]:
    asked = head.peer(f"user:owner/{time.monotonic_ns()}")
    return {run["name"]: run for run in head.told(asked, control.ListRuns())["runs"]}


def events_of(head: Head, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the head does from now on: commits, and answers it sends."""
    done: list[str] = []
    put, send = rows.put, head.daemon._messenger.send  # type: ignore[union-attr]

    def putting(db: Any, changes: Any) -> None:
        put(db, changes)
        done.append("saved")

    def sending(peer: str, message: Any) -> None:
        if isinstance(message, control.Answer):
            done.append("answered")
        send(peer, message)

    monkeypatch.setattr("head.daemon.rows.put", putting)
    monkeypatch.setattr(head.daemon._messenger, "send", sending)  # type: ignore[union-attr]
    return done


def test_a_burst_is_saved_at_once_and_then_answered(
    head: Head, user: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    head.ask(user, control.ListRuns())
    done, count = events_of(head, monkeypatch), 50
    for number in range(count):
        user.say(submission(f"r{number}"))
    deadline = time.monotonic() + PATIENCE
    while head.daemon._messenger._peers.untaken < count:  # type: ignore[union-attr]
        assert time.monotonic() < deadline
        time.sleep(0.005)
    head.daemon.turn()  # type: ignore[union-attr]
    answers = [at for at, what in enumerate(done) if what == "answered"]
    assert len(answers) == count
    assert done[: answers[0]] == ["saved"], "one commit for all of them, before the first answer"


@pytest.mark.parametrize(
    ("ask", "state"),
    [(control.StopRun("r1"), {"state": "stopping"}), (control.DrainNode("w1"), {"node": "w1"})],
)
def test_what_changes_something_is_saved_first(
    ask: control.UserRequest, state: dict[str, str], head: Head, user: Peer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    joined(head, "w1")
    assert not head.ask(user, submission("r1")).fault
    done = events_of(head, monkeypatch)
    answer = head.ask(user, ask)
    assert plain_of(answer).items() >= state.items()
    assert done[:2] == ["saved", "answered"]


def test_a_submission_that_cannot_be_saved_was_never_there(
    head: Head, user: Peer, full: pytest.MonkeyPatch
) -> None:
    answers = [head.ask(user, submission("r1", ticket)) for ticket in ("a", "a", "b")]
    for answer in answers:
        assert "not saved: No space left on device" in answer.fault
        assert not answer.data
    assert runs(head) == {}
    full.undo()
    head.until(lambda: not head.daemon._unsavable)  # type: ignore[union-attr]
    head.stop()
    head.start(head.endpoint)
    assert runs(head) == {}


def test_a_run_that_was_to_be_resumed_is_over_as_before(
    head: Head, user: Peer, full: pytest.MonkeyPatch
) -> None:
    scheduler = head.daemon._scheduler  # type: ignore[union-attr]
    run = Run("r1", {"ticket": "t"}, str(head.folder / "runs" / "r1"), state="done")
    scheduler.submit(run)
    answer = head.ask(user, control.Submit({"ticket": "again", "resume": "r1"}))
    assert "not saved" in answer.fault
    assert scheduler.runs["r1"] is run


def test_nothing_else_is_changed_either(
    head: Head, user: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    joined(head, "w1")
    for name in ("r1", "r2", "r3"):
        head.ask(user, submission(name))
    before = runs(head)
    assert {run["state"] for run in before.values()} == {"starting", "queued"}

    def fails(*_: object) -> None:
        raise NO_ROOM

    with monkeypatch.context() as patch:
        patch.setattr("head.daemon.rows.put", fails)
        for name in before:
            assert "not saved" in head.ask(user, control.StopRun(name)).fault
        assert "not saved" in head.ask(user, control.DrainNode("w1")).fault
        changed = runs(head)
        assert {name: run["state"] for name, run in changed.items()} == {
            name: run["state"] for name, run in before.items()
        }
        assert "room on the head's disk" in changed["r3"]["waits_for"]
        assert head.nodes(user)["w1"]["leaves"] == ""
        assert sum("cannot be saved" in line for line in head.said) == 1, "said once"
    assert head.told(user, control.StopRun("r3"))["outcome"] == "interrupted"


def test_a_drain_that_is_not_saved_ends_no_run_that_the_node_carries(
    head: Head, user: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(RunHost, "signal", lambda _, run, number: told.append(run))
    joined(head, "w1")
    scheduler = head.daemon._scheduler  # type: ignore[union-attr]
    up = control.RunUp("r1", 1, 1, b"", "", "", "", 1)
    run = Run("r1", {}, str(head.folder), state="running", epoch=1, up=up, carrier="w1")
    scheduler.submit(run)
    with monkeypatch.context() as patch:

        def fails(*_: object) -> None:
            raise NO_ROOM

        patch.setattr("head.daemon.rows.put", fails)
        assert "nothing was changed" in head.ask(user, control.DrainNode("w1")).fault
        runs(head)
    assert not run.goes_on
    assert told == []
    assert not head.ask(user, control.DrainNode("w1")).fault
    head.until(lambda: told == ["r1"])
    assert run.goes_on


def test_a_run_whose_beginning_is_not_saved_does_not_begin(
    head: Head, user: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the next head would not know of its process and begin it again beside it."""
    begun: list[str] = []
    monkeypatch.setattr(RunHost, "begin", lambda _, run, needed: begun.append(run.name))
    put, left = rows.put, [1]  # commits that find room: that of the submission

    def fails(*given: Any) -> None:
        if not left:
            raise NO_ROOM
        left.pop()
        put(*given)

    head.ask(user, control.ListRuns())
    with monkeypatch.context() as patch:
        patch.setattr("head.daemon.rows.put", fails)
        assert not head.ask(user, submission("r1")).fault
        assert begun == []
        runs(head)
    head.until(lambda: begun == ["r1"])


def test_a_number_of_actors_outlives_the_process_that_was_told(head: Head, user: Peer) -> None:
    """Its checkpoint may be older than that."""
    daemon = head.daemon
    assert daemon is not None
    folder = str(head.folder / "runs" / "r1")
    up = control.RunUp("r1", 1, 1, b"", "", "", "", 4)
    daemon._scheduler.submit(Run("r1", {}, folder, state="running", epoch=1, up=up))
    process = process_of(head, "r1")
    user.say(control.ScaleRun("r1", 3))
    head.until(lambda: process.last(control.ScaleRun), process)
    process.say(control.RunScaled(3, 4, request=process.last(control.ScaleRun).request))
    head.until(lambda: user.last(control.Answer), user)
    assert saved_run(head, "r1").by_hand == 3
    process.messenger.close(0.0)
    daemon._run_ended(Ended("r1", -9, "killed"))
    head.until(lambda: daemon._scheduler.runs["r1"].epoch == 2)
    process = process_of(head, "r1")
    process.say(control.RunUp("r1", 2, 1, b"", "", "", "", 4))
    head.until(lambda: process.last(control.ScaleRun), process)
    assert process.last(control.ScaleRun).actors == 3


def process_of(head: Head, run: str) -> Peer:
    process = Peer(head.daemon._head_state.socket, None, run)  # type: ignore[union-attr]
    head._stack.callback(process.messenger.close, 0.0)
    return process


def saved_run(head: Head, name: str) -> Run:
    db = head.daemon._store._db  # type: ignore[union-attr]
    assert db is not None
    return next(run for run in rows.read(db).runs if run.name == name)


def test_who_was_to_be_told_to_end_by_the_last_head_is_told_by_the_next(
    head: Head, user: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Saved, answered, and killed before the signal."""
    told: list[str] = []
    monkeypatch.setattr(RunHost, "signal", lambda _, run, number: told.append(run))
    scheduler = head.daemon._scheduler  # type: ignore[union-attr]
    up = control.RunUp("r1", 1, 1, b"", "", "", "", 4)
    scheduler.submit(Run("r1", {}, "r1", state="stopping", epoch=1, up=up))
    for state in ("stopping", "running", "running"):
        scheduler.run_news(control.RunNews("r1", state), 0.0)
        head.daemon._dirty = True  # type: ignore[union-attr]
        head.daemon.turn()  # type: ignore[union-attr]
    assert told == ["r1"], "once"


# -- real heads, killed ----------------------------------------------------------------------------


def answered(messenger: Messenger) -> set[str]:
    taken = [message for _, message in messenger.take()]
    return {m.data["run"] for m in taken if isinstance(m, control.Answer) and "run" in m.data}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    there = Cluster(tmp_path)
    try:
        yield there
    finally:
        there.close()


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.0005)


@pytest.mark.processes
@pytest.mark.long
def test_what_was_answered_is_there_after_the_head_was_killed(cluster: Cluster) -> None:
    known: set[str] = set()
    cluster.status()  # whoever was answered waits for the next head
    for life in range(3):
        me = f"user:owner/{life}"
        with closing(
            Messenger.connect(cluster.endpoint, Keys.load(cluster.keys), me, lambda: None)
        ) as messenger:
            for number in range(200):
                messenger.send("head", submission(f"r{life}-{number}"))
            found: set[str] = set()
            until(lambda: found.update(answered(messenger)) or len(found) > 40 * life)  # noqa: B023
            cluster.head.kill()
            time.sleep(0.2)  # what was on its way arrives
            known |= found | answered(messenger)
        cluster.start_head()
    there = {run["name"] for run in cluster.status()[1].values()}
    assert len(known) > 100
    assert known <= there, f"{len(known - there)} of {len(known)} were answered and are lost"
