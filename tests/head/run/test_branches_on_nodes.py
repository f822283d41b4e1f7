"""Actors on the nodes of a cluster are branched there, and whoever asked is told in any case."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from remote_head import ONE, STEPS, TWO, Head, sample

from artos.errors import BadMessage, CheckpointFault, NotBranched
from artos.protocol import steering
from artos.protocol.control import BranchRun, RunBranched
from artos.protocol.invocations import Branch
from artos.protocol.message import Restarted
from artos.runtime.branch_result import result
from head.run.cluster import ClusterRun

ORDER = Branch("here/branch-1", 3, env=1, seed=7)
DONE = result(0, ORDER)


@pytest.fixture
def head(tmp_path: Path) -> Head:
    return Head(tmp_path)


class Asked:
    """A user who has asked for a branch of actor 0."""

    def __init__(self, head: Head) -> None:
        self.told: list[Any] = []
        head.remote.branches.ask(ONE, ORDER, lambda data: self.told.append(json.loads(data)))

    @property
    def fault(self) -> str:
        (told,) = self.told
        assert (told["actor"], told["env"], told["children"]) == (0, 1, [])
        return str(told["fault"])


def test_the_node_of_the_actor_is_asked_and_its_answer_is_told_once(head: Head) -> None:
    head.begin()
    asked = Asked(head)
    assert head.said() == [("w1", steering.BranchActor(ONE, 1, ORDER))]
    with pytest.raises(BadMessage, match="nobody has asked w2"):
        head.remote.heard("w2", steering.ActorBranched(1, DONE))
    assert asked.told == []
    head.remote.heard("w1", steering.ActorBranched(1, DONE))
    assert asked.told == [json.loads(DONE)]
    with pytest.raises(BadMessage, match="nobody has asked w1"):
        head.remote.heard("w1", steering.ActorBranched(1, DONE))
    head.remote.branches.close()
    assert len(asked.told) == 1


def test_other_weights_go_with_the_order(head: Head) -> None:
    head.begin()
    order = msgspec.structs.replace(ORDER, weights="/runs/other", best=True)
    head.remote.branches.ask(ONE, order, lambda data: None)
    assert head.said() == [("w1", steering.BranchActor(ONE, 1, order, b"/runs/other"))]


@pytest.mark.parametrize(
    "error", [NotBranched("they are too large"), CheckpointFault("/runs/other", "is damaged")]
)
def test_weights_that_cannot_be_sent_are_refused(
    head: Head, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: object, **named: object) -> bytes:
        raise error

    head.begin()
    head.remote.branches._weights = fail
    monkeypatch.setattr("artos.runtime.other_weights.faults", lambda *_, **named: [])
    answer = branch(run_of(head, tmp_path), weights="/runs/other")
    assert answer.fault == str(error)
    assert not answer.file
    assert head.said() == []


# -- an actor that cannot be asked -----------------------------------------------------------------


def nowhere(head: Head) -> None:
    head.up("w1")


def unopened(head: Head) -> None:
    head.place({0: "w1"})


def without_process(head: Head) -> None:
    head.begin()
    head.remote.end(ONE)


def leaving(head: Head) -> None:
    head.begin()
    head.call(ONE, sample(7, STEPS))
    head.place({0: "w2", 1: "w2"})


@pytest.mark.parametrize(
    ("state", "why"),
    [
        (nowhere, "waits for a node with a free slot"),
        (unopened, "waits for the executor on w1"),
        (without_process, "no process on w1"),
        (leaving, "about to leave w1"),
    ],
)
def test_who_cannot_be_asked_now_is_refused_at_once(
    state: Callable[[Head], None], why: str, head: Head
) -> None:
    state(head)
    head.said()
    with pytest.raises(NotBranched, match=f"actor 0 .*{why}.*: ask again"):
        Asked(head)
    assert head.said() == []


# -- who cannot answer any more --------------------------------------------------------------------


def given_up(head: Head) -> None:
    head.place({0: "w2", 1: "w2"}, "w1")


def gone(head: Head) -> None:
    head.remote.heard("w1", Restarted())


def opened_anew(head: Head) -> None:
    head.remote.heard("w1", steering.ExecutorUp("w1", 1, 2))


def closed(head: Head) -> None:
    head.remote.heard("w1", steering.ExecutorClosed({}))


@pytest.mark.parametrize("what", [given_up, gone, opened_anew, closed])
def test_what_a_node_does_not_answer_any_more_is_told(
    what: Callable[[Head], None], head: Head
) -> None:
    head.begin()
    asked = Asked(head)
    what(head)
    assert "node w1 is gone (" in asked.fault
    head.remote.branches.close()
    assert len(asked.told) == 1


def test_another_node_that_goes_changes_nothing(head: Head) -> None:
    head.begin()
    asked = Asked(head)
    head.place({0: "w1", 1: "w1"}, "w2")
    assert asked.told == []


def test_the_end_of_the_run_is_told_for_those_that_have_not_answered(head: Head) -> None:
    head.begin()
    first, second = Asked(head), Asked(head)
    head.remote.close()
    head.remote.heard("w1", steering.ActorBranched(1, DONE))
    head.remote.branches.close()
    assert first.told == [json.loads(DONE)]
    assert second.fault == "the run ended before that"


def test_an_actor_that_has_moved_was_branched_where_it_was(head: Head) -> None:
    """Its last node tells what came of it as it leaves."""
    head.begin()
    asked = Asked(head)
    head.place({0: "w2", 1: "w2"})
    head.remote.heard("w1", steering.Packed(1, "cannot pickle 'lock' object"))
    head.reports()
    assert head.remote.node_of(ONE) == "w2"
    head.remote.heard("w1", steering.ActorBranched(1, DONE))
    assert len(asked.told) == 1


@pytest.mark.parametrize("content", [b"", b"\xff", b"[1]", b'{"fault": 3}', b'{"fault": ""}'])
def test_an_answer_that_cannot_be_read_is_told_as_such(head: Head, content: bytes) -> None:
    head.begin()
    asked = Asked(head)
    with pytest.raises(BadMessage, match="the result of branch 1"):
        head.remote.heard("w1", steering.ActorBranched(1, content))
    assert "w1 says of it is damaged" in asked.fault


# -- what the user hears ---------------------------------------------------------------------------


def run_of(head: Head, folder: Path) -> Any:
    """A run on a cluster of which only what is asked for branches is there."""
    run: Any = object.__new__(ClusterRun)
    run._coordinator = SimpleNamespace(actors=(0, 1), plan=SimpleNamespace(envs=2))
    run._site = SimpleNamespace(branch_path=lambda number: folder / f"branch-{number}")
    run._actors, run._results, run._branched = head.remote, folder / "branches", 0
    return run


def branch(run: Any, **changes: Any) -> RunBranched:
    answer = run._change(msgspec.structs.replace(BranchRun("pong", 0, 3), **changes))
    assert isinstance(answer, RunBranched)
    return answer


def test_what_a_node_says_is_in_the_folder_of_the_run(head: Head, tmp_path: Path) -> None:
    head.begin()
    run = run_of(head, tmp_path)
    assert branch(run, env=1, seed=9, steps=4, greedy=True) == RunBranched("branches/1.json")
    ((_, sent),) = head.said()
    assert isinstance(sent, steering.BranchActor)
    order = sent.order
    assert (order.times, order.env, order.steps, order.seed, order.greedy) == (3, 1, 4, 9, True)
    file = tmp_path / "branches" / "1.json"
    assert not file.exists()
    head.remote.heard("w1", steering.ActorBranched(1, DONE))
    assert json.loads(file.read_bytes()) == json.loads(DONE)
    assert branch(run, actor=1).file == "branches/2.json"


def test_all_that_is_wrong_is_said_and_nobody_is_asked(head: Head, tmp_path: Path) -> None:
    head.begin()
    run = run_of(head, tmp_path)
    answer = branch(run, actor=2, env=2)
    assert [line.split(":")[0] for line in answer.fault.splitlines()] == [
        "there is no actor 2",
        "an actor has no environment 2",
    ]
    head.remote.end(TWO)
    head.said()
    assert "no process on w2" in branch(run, actor=1).fault
    assert head.said() == []
    assert branch(run).file == "branches/1.json", "no number was used up"


def test_a_folder_that_cannot_be_written_is_told_and_ends_no_run(
    head: Head, tmp_path: Path
) -> None:
    head.begin()
    run = run_of(head, tmp_path)
    file = tmp_path / "branches"
    file.touch()
    assert branch(run).fault == f"{file}: File exists"
    assert branch(run).file == ""
