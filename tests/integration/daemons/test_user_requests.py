"""Every request of a user is answered; one to scale a run is passed on to it, answers come back."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest
from helpers import PATIENCE
from test_head_daemon import Head, Peer, joined, plain_of

from artos.clock import Deadline
from artos.protocol import control
from artos.protocol.usage import Usage
from artos.protocol.views import RunFacts
from artos.transport.keys import make_keys
from artos.transport.roles import Holder, KeyRole
from head.daemon import status_api
from head.daemon.quotas import Quota, Quotas
from head.daemon.run import Run, Seconds
from head.daemon.run_host import Ended, RunHost

FIELDS = {
    "run": "r9", "file": "f", "node": "w9", "actors": 3, "request": {"ticket": "1"}, "settings": {},
    "seconds": 1.0,
}  # fmt: skip


@pytest.fixture
def head(tmp_path: Path) -> Iterator[Head]:
    with ExitStack() as stack:
        yield Head(tmp_path, stack)


@pytest.fixture
def process(head: Head) -> Peer:
    """The process of the run r1, which has four actors."""
    assert head.daemon is not None
    up = control.RunUp("r1", 1, 1, b"", "", "", "", 4)
    folder = str(head.folder / "runs" / "r1")
    head.daemon._scheduler.submit(Run("r1", {}, folder, state="running", epoch=1, up=up))
    peer = Peer(head.daemon._head_state.socket, None, "r1")
    head._stack.callback(peer.messenger.close, 0.0)
    return peer


@pytest.mark.parametrize(
    "kind", control.UserRequest.__subclasses__(), ids=lambda kind: kind.__name__
)
def test_every_request_is_known(kind: type[control.UserRequest], head: Head) -> None:
    numbered = {"request": 1} if kind in (control.ScaleRun, control.SetRun) else {}
    answer = head.ask(head.peer("user:owner/1"), msgspec.convert(FIELDS | numbered, kind))
    assert plain_of(answer) or any(word in answer.fault for word in ("r9", "w9", "workload"))


def test_a_run_is_that_of_the_user_whose_key_submits_it(
    head: Head, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RunHost, "begin", lambda *_: None)
    make_keys(head.keys, Holder(KeyRole.USER, "ann"))
    for user in ("ann", "owner"):
        wanted = control.Submit({"ticket": user, "workload": "ppo", "run_dir": f"of-{user}"})
        assert head.ask(head.peer(f"user:{user}/1"), wanted).fault == ""
    runs = head.told(head.peer("user:owner/2"), control.ListRuns())["runs"]
    assert {run["name"]: run["user"] for run in runs} == {"of-ann": "ann", "of-owner": "owner"}
    resumed = control.Submit({"ticket": "r", "resume": "of-ann"})
    head.daemon._scheduler.run_ended("of-ann", 1, "")  # type: ignore[union-attr]
    assert head.ask(head.peer("user:owner/3"), resumed).fault == ""
    runs = head.told(head.peer("user:owner/2"), control.ListRuns())["runs"]
    assert {run["user"] for run in runs} == {"owner"}, "who has it go on pays for that"


@pytest.mark.parametrize(
    ("request_of", "act"),
    [
        (control.StopRun, "stop"),
        (lambda run: control.ScaleRun(run, 3), "scale"),
        (lambda run: control.SetRun(run, {"learner.lr": 0.1}), "set settings of"),
        (control.ReadLogs, "read the logs of"),
        (control.ListFiles, "read the files of"),
        (lambda run: control.ReadFile(run, "config.json"), "read the files of"),
        (lambda run: control.Submit({"ticket": run, "resume": run}), "resume"),
    ],
)
def test_a_run_of_another_user_is_theirs_but_an_admin_may_all(
    head: Head, request_of: Callable[[str], control.UserRequest], act: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    assert head.daemon is not None
    monkeypatch.setattr(RunHost, "begin", lambda *_: None)
    make_keys(head.keys, Holder(KeyRole.USER, "ann"), Holder(KeyRole.USER, "bob"))
    for user in ("ann", "bob", "owner"):
        folder = head.folder / "runs" / f"of-{user}"
        (folder / "logs").mkdir(parents=True)
        run = Run(folder.name, {"workload": "ppo"}, str(folder), state="queued", user=user)
        head.daemon._scheduler.submit(run)
    refused = f"is bob's: only they and admins may {act} it (admins are owner: head.toml)"
    ann, owner = head.peer("user:ann/1"), head.peer("user:owner/1")
    assert head.ask(ann, request_of("of-bob")).fault == f"run of-bob {refused}"
    assert "may" not in head.ask(ann, request_of("of-ann")).fault
    assert "may" not in head.ask(owner, request_of("of-bob")).fault
    assert "only running runs" in head.ask(ann, control.ScaleRun("of-ann", 2)).fault
    seen = head.told(ann, control.ListRuns())["runs"]
    assert {run["user"] for run in seen} == {"ann", "bob", "owner"}, "all may see what there is"


def test_only_admins_and_the_keeper_take_a_machine_back(head: Head) -> None:
    """With no time left it would kill the actors of all users there."""
    make_keys(head.keys, Holder(KeyRole.USER, "ann"), Holder(KeyRole.USER, "bob"))
    options = head.daemon._client_api._options  # type: ignore[union-attr]
    head.daemon._client_api._options = msgspec.structs.replace(options, admins=("bob",))  # type: ignore[union-attr]
    worker = joined(head, "w1")
    answer = head.ask(head.peer("user:ann/1"), control.ReclaimNode("w1", 0.0))
    for words in ("admins are bob: head.toml", "ask one of them", "`artos drain w1`"):
        assert words in answer.fault
    for user in ("bob", "owner"):  # the keeper's key is the owner's, whoever the admins are
        asked = control.ReclaimNode("w1", 9.0)
        assert head.told(head.peer(f"user:{user}/1"), asked) == {"node": "w1"}
        head.until(lambda: worker.last(control.Leave), worker)
        assert [each.seconds for each in worker.heard if isinstance(each, control.Leave)] == [9.0]
        worker.heard.clear()
    assert head.told(head.peer("user:ann/2"), control.DrainNode("w1"))["node"] == "w1"


def test_a_run_that_is_scaled_answers_each_request(head: Head, process: Peer) -> None:
    first, second = head.peer("user:owner/1"), head.peer("user:owner/2")
    first.say(control.ScaleRun("r1", 3, number=5))
    head.until(lambda: len(scalings(process)) == 1, process)
    second.say(control.ScaleRun("r1", 9, number=6))
    head.until(lambda: len(scalings(process)) == 2, process)
    to_three, to_nine = scalings(process)
    assert (to_three.run, to_three.actors, to_nine.actors) == ("r1", 3, 9)
    process.say(control.RunScaled(3, 4, "4 are registered", to_nine.request))
    process.say(control.RunScaled(1, 4))  # nobody asked for that
    process.say(control.RunScaled(3, 4, request=to_three.request))
    process.say(control.RunScaled(2, 4, request=to_three.request))  # nor for that any more
    head.until(lambda: first.heard and second.heard, first, second)
    assert first.heard == [control.Answer({"actors": 3, "most": 4}, number=5)]
    assert second.heard == [control.Answer(fault="4 are registered", number=6)]


def test_settings_are_passed_on_to_the_run_and_answered_between_other_requests(
    head: Head, process: Peer
) -> None:
    user, other = head.peer("user:owner/1"), head.peer("user:owner/2")
    user.say(control.SetRun("r1", {"learner.lr": 0.5}))
    head.until(lambda: process.last(control.SetRun), process)
    wanted = process.last(control.SetRun)
    assert (wanted.run, wanted.settings) == ("r1", {"learner.lr": 0.5})
    other.say(control.ScaleRun("r1", 3))
    head.until(lambda: scalings(process), process)
    now = {"learner.lr": 0.5, "learner.clip": 0.1}
    process.say(control.RunSet(2, now, request=wanted.request))
    process.say(control.RunScaled(3, 4, request=scalings(process)[0].request))
    head.until(lambda: user.heard and other.heard, user, other)
    assert user.heard == [control.Answer({"configuration": 2, "settings": now})]
    assert other.heard == [control.Answer({"actors": 3, "most": 4})]


def test_a_run_that_does_not_answer_is_given_up_and_its_late_answer_is_for_nobody(
    head: Head, process: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = head.peer("user:owner/1")
    with monkeypatch.context() as patch:
        patch.setattr("head.daemon.pending._SECONDS", 0.0)
        assert "run r1 did not answer" in head.ask(user, control.ScaleRun("r1", 3)).fault
    head.until(lambda: scalings(process), process)
    user.heard.clear()
    user.say(control.SetRun("r1", {"learner.lr": 0.5}))
    head.until(lambda: process.last(control.SetRun), process)
    process.say(control.RunScaled(3, 4, request=scalings(process)[0].request))
    process.say(control.RunSet(1, request=process.last(control.SetRun).request))
    head.until(lambda: user.heard, user)
    assert user.heard == [control.Answer({"configuration": 1, "settings": {}})]
    assert head.daemon._scheduler.runs["r1"].by_hand == 0  # type: ignore[union-attr]


def test_who_asks_a_run_whose_process_ends_need_not_wait(head: Head, process: Peer) -> None:
    user = head.peer("user:owner/1")
    user.say(control.ScaleRun("r1", 3))
    head.until(lambda: scalings(process), process)
    head.daemon._run_ended(Ended("r1", 0, ""))  # type: ignore[union-attr]
    head.until(lambda: user.heard, user)
    assert "run r1 ended" in user.heard[0].fault


def test_a_run_that_is_not_up_is_not_scaled(head: Head) -> None:
    assert head.daemon is not None
    folder = str(head.folder / "runs" / "r1")
    head.daemon._scheduler.submit(Run("r1", {}, folder, state="starting"))
    answer = head.ask(head.peer("user:owner/1"), control.ScaleRun("r1", 3))
    assert "only running runs can be scaled" in answer.fault


def scalings(process: Peer) -> list[control.ScaleRun]:
    return [message for message in process.heard if isinstance(message, control.ScaleRun)]


def test_what_a_run_held_while_the_head_was_away_is_in_the_books(head: Head) -> None:
    """Its last news may be old, or none."""
    assert head.daemon is not None
    folder = head.folder / "runs" / "r1"
    folder.mkdir()
    usage = Usage(cpu_seconds_held=7.5).bill
    summary = {"outcome": "done", "usage": usage, "epoch": 1}
    (folder / "summary.json").write_text(json.dumps(summary))
    scheduler = head.daemon._scheduler
    scheduler.books.quotas = Quotas(users={"*": Quota(cpu_seconds=10)})
    facts = RunFacts(usage={"cpu_seconds_held": 1.0})
    scheduler.submit(Run("r1", {}, str(folder), state="running", epoch=1, facts=facts, user="ann"))
    head.daemon._run_ended(Ended("r1", 0, "it ended while the head was away"))
    head.until(lambda: True)
    head.stop()
    head.start("tcp://127.0.0.1:*")
    assert head.daemon._scheduler.books.spent == {"user ann": Seconds(7.5)}


def test_many_questions_of_one_user_are_answered_in_turns_with_others(
    head: Head, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what they all are shown is made once a turn."""
    make_keys(head.keys, Holder(KeyRole.USER, "ann"))
    daemon, count = head.daemon, 250
    assert daemon is not None
    made: list[float] = []
    show = status_api.everything
    monkeypatch.setattr(
        status_api, "everything", lambda *given: made.append(given[2]) or show(*given)
    )
    ann, owner = head.peer("user:ann/1"), head.peer("user:owner/1")
    head.ask(owner, control.ReadLimits())
    for _ in range(count):
        ann.say(control.ReadStatus())
    untaken(head, count)
    owner.say(control.ReadLimits())
    untaken(head, count + 1)
    daemon.turn()
    wait_for(owner)
    assert len(owner.heard) == 2
    assert len(made) == 1
    head.until(lambda: len(ann.heard) == count, ann)
    assert len(made) <= 4


def untaken(head: Head, count: int) -> None:
    """Wait until so many requests have come in."""
    deadline = Deadline(PATIENCE)
    while head.daemon._messenger._peers.untaken < count:  # type: ignore[union-attr]
        assert not deadline.passed
        time.sleep(0.005)


def wait_for(peer: Peer) -> None:
    """Wait until this peer has heard something else; the head takes no turn meanwhile."""
    deadline, before = Deadline(PATIENCE), len(peer.heard)
    while len(peer.heard) == before:
        assert not deadline.passed
        time.sleep(0.005)
        peer.listen()


def test_one_user_does_not_fill_the_queue_of_all(
    head: Head, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RunHost, "begin", lambda *_: None)
    monkeypatch.setattr("head.daemon.client_api._MOST_QUEUED", 2)
    user, said = head.peer("user:owner/1"), []
    for number in range(4):
        wanted = {"ticket": f"{number}", "workload": "ppo", "run_dir": f"r{number}"}
        said.append(head.ask(user, control.Submit(wanted)).fault)
    assert said[:3] == [""] * 3, "one of them begins"
    assert "2 runs of user owner wait already" in said[3]
