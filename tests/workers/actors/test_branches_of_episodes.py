"""Orders to branch: handed on when the actor can hear them, and what came of them written down."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from msgspec.json import decode

from artos.buffer.mailbox import Board
from artos.buffer.shm_folder import ShmFolder
from artos.clock import ManualClock
from artos.protocol.invocations import Branch, Branched, decode_to_member
from artos.runtime.branching import Found
from artos.specs.members import ACTORS, Member, Members
from triggers.passers import Mailboxes
from workers.actors import branches
from workers.actors.actor_record import ActorRecord, State
from workers.actors.branches import Branches

ACTOR = Member(ACTORS, 1)
MEMBERS = Members.of_run(2)


class Node:
    """A board with an actor of which only a record is there."""

    def __init__(self, memory: Path, folder: Path) -> None:
        self.board = Board.create(memory / "board", MEMBERS)
        self.record, self.clock = ActorRecord(ACTOR, State.PARKED), ManualClock()
        self.prepared: list[Member] = []
        self.branches = Branches(
            {ACTOR: self.record}, Mailboxes(self.board), self.prepared.append,
            lambda member: folder / "actor-1.log", None, self.clock,
        )  # fmt: skip
        self.order = Branch(str(memory / "branch-1"), 3)
        self.told: list[Any] = []

    def ask(self, order: Branch | None = None) -> None:
        self.branches.ask(ACTOR, order or self.order, lambda data: self.told.append(decode(data)))

    def heard(self) -> Any:
        """What the actor was sent."""
        data = self.board.down(ACTOR).take()
        return None if data is None else decode_to_member(data)

    def tell(self, *found: Found) -> None:
        with Path(self.order.file).open("ab") as file:
            file.writelines(msgspec.json.encode(each) + b"\n" for each in found)

    @property
    def only(self) -> Any:
        (told,) = self.told
        return told


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    memory = ShmFolder.create("branches")
    try:
        yield Node(memory.path, tmp_path)
    finally:
        memory.remove()


def process() -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "600"])


def test_an_order_waits_until_the_actor_hears_it(node: Node) -> None:
    node.record.state = State.CHECKPOINTED
    node.ask()
    assert node.heard() is None
    assert node.prepared == [ACTOR]
    assert node.record.branches == 1, "it stays a process from now on"
    node.record.state = State.PARKED
    node.branches.look()
    node.branches.look()
    assert node.heard() == node.order
    assert node.heard() is None, "once"


def test_it_is_written_down_once_all_have_ended(node: Node) -> None:
    stem = process()
    node.ask()
    node.branches.heard(ACTOR, Branched("fork", stem.pid, 64, 7, 2.0, 5, "abc"))
    node.tell(Found(2, 4.0, 4, True, 12, "abc", 0.5), Found(0, 1.0, 1, True, 10, "abc", 0.5))
    node.branches.look()
    assert node.told == []
    stem.kill()
    stem.wait()
    node.branches.look()
    found = node.only
    assert (found["by"], found["row"], found["version"], found["digest"]) == ("fork", 64, 7, "abc")
    assert found["so_far"] == {"return": 2.0, "steps": 5}
    assert [child["return"] for child in found["children"]] == [1.0, None, 4.0]
    assert ["not made" in child["fault"] for child in found["children"]] == [False, True, False]
    assert not Path(node.order.file).exists()
    assert node.record.branches == 0


def test_each_says_with_which_weights_it_was_played(node: Node) -> None:
    order = msgspec.structs.replace(node.order, weights="/runs/other")
    node.ask(order)
    node.tell(Found(0, 1.0, 1, version=9), Found(1, fault="raised", version=9))
    node.branches.heard(ACTOR, Branched("fork", 0, 64, 7))
    found = node.only
    assert found["version"] == 7, "the actor's own"
    assert [child["version"] for child in found["children"]] == [9, 9, -1]
    assert {child["weights"] for child in found["children"]} == {"/runs/other"}


def test_why_an_actor_cannot_is_passed_on(node: Node) -> None:
    node.ask()
    node.branches.heard(ACTOR, Branched(fault="it has threads"))
    assert node.only["fault"] == "it has threads"
    assert node.only["children"] == []


@pytest.mark.parametrize("answered", [True, False])
def test_an_actor_that_is_gone_leaves_what_was_told(node: Node, answered: bool) -> None:
    stem = process()
    try:
        node.ask()
        if answered:
            node.branches.heard(ACTOR, Branched("fork", stem.pid))
            node.tell(Found(0, 1.0, 1))
        node.branches.lost(ACTOR)
        assert ("ended before" in node.only["fault"]) is not answered
        assert len(node.only["children"]) == (3 if answered else 0)
    finally:
        stem.kill()
        stem.wait()


def test_the_end_of_the_run_is_the_end_of_all(node: Node) -> None:
    stem = process()
    try:
        node.ask()
        node.branches.heard(ACTOR, Branched("fork", stem.pid))
        node.tell(Found(0, 4.0, 4, True))
        node.ask(msgspec.structs.replace(node.order, file=f"{node.order.file}0"))
        node.branches.close()
        assert stem.wait(60) == -9
        begun, waited = node.told
        assert begun["fault"] == ""
        assert ["the run" in child["fault"] for child in begun["children"]] == [False, True, True]
        assert [child["return"] for child in begun["children"]] == [4.0, None, None]
        assert "the run" in waited["fault"]
        assert node.record.branches == 0
    finally:
        stem.kill()
        stem.wait()


def test_an_order_that_cannot_be_handed_on_is_told_and_ends_nothing_else(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(branches, "is_apart", lambda _: True)
    node.branches._images = node.record.child = SimpleNamespace(pid=1)  # type: ignore[assignment]
    order = msgspec.structs.replace(node.order, file=f"{node.order.file}/no-folder/here")
    node.ask(order)
    assert "No such file" in node.only["fault"]
    assert node.record.branches == 0


def test_what_another_look_has_finished_meanwhile_is_left_alone(node: Node) -> None:
    node.record.state = State.CHECKPOINTED
    node.ask()
    node.ask()
    second = node.branches._under_way[1]
    second.sent, second.branched = True, Branched(fault="it has threads")

    def prepare(member: Member) -> None:
        node.prepared.append(member)
        if len(node.prepared) < 10:
            node.branches.look()

    node.prepared.clear()
    node.branches._prepare = prepare
    node.branches.look()
    assert node.record.branches == 1


def test_an_order_that_finds_no_room_is_told_later(node: Node) -> None:
    for _ in range(1000):
        node.ask()
    told = 0
    while node.heard() is not None:
        told += 1
    assert 0 < told < 1000
    node.branches.look()
    assert node.heard() == node.order


# -- whoever asked waits no longer -----------------------------------------------------------------


def test_what_has_not_ended_in_time_is_ended_and_the_rest_is_told(node: Node) -> None:
    stem = process()
    try:
        node.ask(msgspec.structs.replace(node.order, seconds=5.0))
        node.branches.heard(ACTOR, Branched("fork", stem.pid))
        node.tell(Found(1, 4.0, 4, True))
        node.clock.advance(4.0)
        node.branches.look()
        assert stem.poll() is None
        node.clock.advance(1.0)
        node.branches.look()
        assert stem.wait(60) == -9
        node.branches.look()
        assert [child["return"] for child in node.only["children"]] == [None, 4.0, None]
        assert "not ended after 5 s" in node.only["children"][0]["fault"]
        assert node.record.branches == 0
    finally:
        stem.kill()
        stem.wait()


def test_an_actor_that_answers_too_late_has_its_copy_ended(node: Node) -> None:
    stem = process()
    try:
        node.ask(msgspec.structs.replace(node.order, seconds=5.0))
        node.clock.advance(6.0)
        node.branches.look()
        assert node.told == [], "it may be about to fork"
        node.branches.heard(ACTOR, Branched("fork", stem.pid))
        assert stem.wait(60) == -9
        node.branches.look()
        assert all("not ended" in child["fault"] for child in node.only["children"])
    finally:
        stem.kill()
        stem.wait()


def test_an_order_that_was_never_handed_on_is_not_kept_for_ever(node: Node) -> None:
    node.record.state = State.CHECKPOINTED
    node.ask(msgspec.structs.replace(node.order, seconds=5.0))
    node.clock.advance(5.0)
    node.branches.look()
    assert "not ended after 5 s" in node.only["fault"]


# -- an actor that goes to another node ------------------------------------------------------------


def test_what_continues_its_episode_ends_before_it_leaves(node: Node) -> None:
    """What has been told by then is kept, and it is asked again until nothing is left of it."""
    stem = process()
    node.ask()
    node.branches.heard(ACTOR, Branched("fork", stem.pid, 64))
    node.tell(Found(1, 4.0, 4, True))
    node.record.state = State.CHECKPOINTED
    node.ask(msgspec.structs.replace(node.order, file=f"{node.order.file}0"))
    node.record.state = State.PARKED
    node.branches.leave(ACTOR)
    assert stem.wait(60) == -9
    assert node.branches.leave(ACTOR)
    assert node.record.branches == 0
    waited, begun = node.told
    assert "goes to another node: ask again" in waited["fault"]
    assert begun["fault"] == ""
    assert ["another node" in child["fault"] for child in begun["children"]] == [True, False, True]


def test_it_waits_for_the_answer_to_an_order_that_it_has(node: Node) -> None:
    """The actor may be about to fork."""
    stem = process()
    node.ask()
    assert not node.branches.leave(ACTOR)
    assert node.told == []
    node.branches.heard(ACTOR, Branched("fork", stem.pid))
    node.branches.leave(ACTOR)
    assert stem.wait(60) == -9
    assert node.branches.leave(ACTOR)
    assert len(node.only["children"]) == 3


def test_copies_of_its_image_are_ended(node: Node) -> None:
    closed: list[bool] = []
    copies: Any = SimpleNamespace(
        close=lambda: closed.append(True), look=lambda: False, faults={}, made={}
    )
    node.ask()
    (order,) = node.branches._under_way
    order.branched, order.copies = Branched("clone"), copies
    assert node.branches.leave(ACTOR)
    assert closed == [True]
    assert all("another node" in child["fault"] for child in node.only["children"])


def test_one_that_has_left_is_not_given_a_process_for_what_it_was_asked(node: Node) -> None:
    node.record.state = State.CHECKPOINTED
    node.ask()
    node.branches.lost(ACTOR)
    assert node.told == [], "one that stays is started again, and hears it then"
    node.branches.lost(ACTOR, stays=False)
    assert "ended before" in node.only["fault"]
    node.prepared.clear()
    node.branches.look()
    assert node.prepared == []
