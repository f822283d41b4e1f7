"""The episode of a live actor is continued beside it: alike at first, then each on its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import psutil
import pytest
from helpers import PATIENCE
from saved_runs import saved_run
from stage import ROUND, Stage, rows_here

from artos.actors.groups import GroupActor
from artos.policies.build import Policy
from artos.protocol.invocations import Branch, Branched, Invoke, encode
from artos.runtime.branching import Branching, Found
from artos.runtime.other_weights import to_send
from artos.runtime.serving import actor_role
from artos.specs.contracts import Played
from artos.specs.members import ACTORS, Member
from artos.system.pidfd import PidFd
from artos.transport.weights.channel import Way

ACTOR = Member(ACTORS, 0)
SHARING = """
import os, subprocess, sys
from artos.runtime.branching import shared_in_a_copy

print(shared_in_a_copy(()) or "nothing")
with open(sys.argv[1]):
    print(shared_in_a_copy(()) or "nothing")
with subprocess.Popen(["sleep", "60"]) as child:
    print(shared_in_a_copy(()) or "nothing")
    print(shared_in_a_copy((child.pid,)) or "nothing")
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    print(shared_in_a_copy(()) or "nothing")
"""
"""What would be shared: nothing; a file; a process, if it is no stem and until it has ended."""


def branched(stage: Stage, order: Branch) -> Branched:
    """Have the actor begin to carry out an order."""
    stage.node.board.down(ACTOR).put(encode(order))
    answer = stage.hear(ACTOR)
    assert isinstance(answer, Branched), answer
    return answer


def found(order: Branch, answer: Branched) -> list[Found]:
    """What came of it, once its processes have ended."""
    assert not answer.fault
    try:
        with PidFd(answer.pid) as stem:
            assert stem.wait(PATIENCE)
    except ProcessLookupError:
        pass
    lines = Path(order.file).read_bytes().splitlines()
    return sorted((msgspec.json.decode(line, type=Found) for line in lines), key=lambda f: f.number)


@pytest.mark.processes
def test_continuations_begin_alike_and_leave_the_rows_of_the_actor_as_they_were(
    tmp_path: Path,
) -> None:
    with Stage("CartPole-v1", tmp_path) as stage:
        child = stage.start_plain(0)
        stage.ready(ACTOR)
        stage.sample(0, ROUND)
        stage.done(0)
        order = Branch(str(tmp_path / "lines"), 6, env=1, cpus=tuple(os.sched_getaffinity(0)))
        answer = branched(stage, order)
        stage.sample(0, 2 * ROUND)  # while they go on
        stage.done(0)
        children = found(order, answer)
        later = msgspec.structs.replace(order, file=f"{order.file}2")
        again = found(later, branched(stage, later))
        stage.sample(0, 3 * ROUND)
        stage.done(0)
        below = psutil.Process(child.pid).children()
        rows = stage.written(0)
        stage.stop(0)
        child.end(PATIENCE)
    assert rows == rows_here("CartPole-v1", 0, rounds=3)
    assert answer.way == "fork"
    assert answer.row == ROUND
    assert answer.version == 1
    assert {each.digest for each in children} == {answer.digest}
    assert len({each.seed for each in children}) == 6
    assert len({each.steps for each in children}) > 1, "each has streams of its own"
    assert all(each.ended and each.total == each.steps and not each.fault for each in children)
    assert {each.digest for each in again} != {answer.digest}, "the actor was elsewhere by then"
    assert below == []


@pytest.mark.processes
def test_other_weights_play_on_from_the_same_frame(tmp_path: Path) -> None:
    with Stage("CartPole-v1", tmp_path) as stage:
        left = saved_run(tmp_path / "left", stage.plan, policy_bias=(20.0, -20.0))
        child = stage.start_plain(0)
        stage.ready(ACTOR)
        stage.sample(0, ROUND)
        stage.done(0)
        order = Branch(str(tmp_path / "lines"), 4, env=1, cpus=tuple(os.sched_getaffinity(0)))
        own = found(order, branched(stage, order))
        other = msgspec.structs.replace(order, file=f"{order.file}2", weights=str(left))
        answer = branched(stage, other)
        others = found(other, answer)
        (sent := tmp_path / "sent").write_bytes(to_send(left, stage.plan, best=False))
        elsewhere = msgspec.structs.replace(
            order, file=f"{order.file}3", weights="/elsewhere", sent=str(sent)
        )
        there = found(elsewhere, branched(stage, elsewhere))
        nothing = branched(stage, msgspec.structs.replace(order, weights=str(tmp_path)))
        stage.sample(0, 2 * ROUND)
        stage.done(0)
        rows = stage.written(0)
        stage.stop(0)
        child.end(PATIENCE)
    assert {each.digest for each in (*own, *others)} == {answer.digest}
    assert [each.seed for each in own] == [each.seed for each in others]
    assert ({each.version for each in own}, {each.version for each in others}) == ({1}, {9})
    assert [(each.seed, each.steps, each.version) for each in there] == [
        (each.seed, each.steps, each.version) for each in others
    ], "no matter which way they came"
    assert answer.version == 1
    assert len({each.steps for each in others}) == 1, "nothing is left to chance"
    assert max(each.steps for each in others) <= 12, "always to the left"
    assert {each.steps for each in own} != {each.steps for each in others}
    assert "there is no checkpoint" in nothing.fault
    assert rows == rows_here("CartPole-v1", 0, rounds=2)


def test_an_actor_that_takes_its_weights_from_elsewhere_is_given_no_others() -> None:
    ways = [Way(), Way("files", "/versions"), Way("http", "/versions", "http://127.0.0.1:1")]
    groups = [GroupActor("words:game", Policy, 1, 2, way) for way in ways]
    assert [each.acts_as_bound for each in groups] == [True, False, False]
    actor: Any = SimpleNamespace(present=lambda env: ({}, Played(0.0, 0)), acts_as_bound=False)
    context: Any = SimpleNamespace(desks={})
    said: list[Branched] = []
    branching = Branching(actor, context, lambda: {"bound": [1]}, lambda held: None)
    branching.branch(Branch("nowhere", 2, weights="/runs/other"), said.append)
    assert "takes its weights from elsewhere" in said[0].fault


def test_an_actor_that_asks_servers_is_not_branched() -> None:
    """Whatever else there is to it: a server knows one episode of each of its environments."""
    context: Any = SimpleNamespace(desks={"inference": object()})
    actor: Any = SimpleNamespace()
    said: list[Branched] = []
    branching = Branching(actor, context, lambda: {"bound": [1]}, lambda held: None)
    branching.branch(Branch("nowhere", 2), said.append)
    (answer,) = said
    assert "asks servers at each step" in answer.fault
    assert not answer.pid


@pytest.mark.processes
def test_what_copies_would_share_with_their_process_is_said(tmp_path: Path) -> None:
    (file := tmp_path / "opened").touch()
    done = subprocess.run(
        [sys.executable, "-c", SHARING, str(file)], capture_output=True, text=True,
        timeout=PATIENCE, check=True,
    )  # fmt: skip
    nothing, opened, process, stem, ended = done.stdout.splitlines()
    assert (nothing, stem, ended) == ("nothing", "nothing", "nothing")
    assert opened.startswith(f"its process has opened {file}, which copies would share")
    assert process.startswith("its process has started 1 others, which copies would share")


def test_what_would_be_shared_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("artos.runtime.branching.shared_in_a_copy", lambda stems: "its file")
    actor: Any = SimpleNamespace(present=lambda env: ({}, Played(0.0, 0)))
    context: Any = SimpleNamespace(desks={})
    said: list[Branched] = []
    branching = Branching(actor, context, lambda: {"bound": [1]}, lambda held: None)
    branching.branch(Branch("nowhere", 2), said.append)
    (answer,) = said
    assert answer.fault == "the episode cannot be branched: its file"
    assert not answer.pid


def test_playing_on_is_what_sampling_would_have_done(tmp_path: Path) -> None:
    found = []
    for samples in (True, False):
        with Stage("CartPole-v1", tmp_path) as stage:
            role, _ = actor_role(stage.plan, stage.site(0), stage.node.model)
            role.run(Invoke(1, "actors.sample", "sample", stop=1))
            if samples:
                done = role.run(Invoke(2, "actors.sample", "sample", stop=ROUND))
                first = stage.node.blocks[0].arrays["terminations"][:ROUND, 0].argmax()
                assert first > 1
                found.append((1.0 + first, int(first)))
                assert first + 1.0 in done.returns
            else:
                played = role._actor.play_on(0)
                assert played.ended
                found.append((played.total + 1, played.steps))
            role.close()
    assert found[0] == found[1]


@pytest.mark.processes
@pytest.mark.usefixtures("atari")
def test_what_a_copy_would_lack_is_said(tmp_path: Path) -> None:
    with Stage("PongNoFrameskip-v4", tmp_path) as stage:
        stage.start_plain(0)
        stage.ready(ACTOR)
        stage.sample(0, 1)
        stage.done(0)
        answer = branched(stage, Branch(str(tmp_path / "lines"), 2))
        stage.sample(0, 2)
        stage.done(0)
    assert "threads that a copy would not have" in answer.fault
    assert not answer.pid


@pytest.mark.processes
def test_an_actor_that_has_no_weights_yet_says_so(tmp_path: Path) -> None:
    with Stage("CartPole-v1", tmp_path) as stage:
        stage.start_plain(0)
        stage.ready(ACTOR)
        answer = branched(stage, Branch(str(tmp_path / "lines"), 2))
        stage.sample(0, ROUND)
        stage.done(0)
    assert "no weights yet" in answer.fault


@pytest.mark.processes
def test_what_user_code_raises_in_a_continuation_is_told(tmp_path: Path) -> None:
    with Stage("toys_to_prepare:tiring", tmp_path) as stage:
        stage.start_plain(0)
        stage.ready(ACTOR)
        stage.sample(0, 1)
        stage.done(0)
        order = Branch(str(tmp_path / "lines"), 3, cpus=(0,))
        children = found(order, branched(stage, order))
        stage.sample(0, 2)
        stage.done(0)
    assert [each.number for each in children] == [0, 1, 2]
    assert all("too tired" in each.fault for each in children)
