"""Memory that actors of a node share goes ahead of them, and they play on meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from remote_head import ONE, STEPS, TWO, Head, sample

from artos.protocol import control, steering
from artos.protocol.invocations import Ready
from artos.protocol.message import Message
from artos.specs.members import ACTORS, Member

NAME, MEMORY, IMAGE = "0123456789abcdef", b"what they share", b"what it was"


class Sharing(Head):
    """Actor 1 lives on w2, where actors share memory, and is to go to w1 or w3."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.folder = folder / "memories"
        for node in ("w1", "w2", "w3"):
            self.remote.heard(node, steering.ExecutorUp(node, 1, 2, "4.1"))
        self.place({0: "w1", 1: "w2"})
        self.remote.start(ONE)
        self.remote.start(TWO)
        self.said()

    def hear(self, node: str, *messages: Message) -> list[tuple[str, Message]]:
        for message in messages:
            self.remote.heard(node, message)
        self.reports()
        return self.said()

    def go(self, target: str = "w1", *, relief: bool = False) -> list[tuple[str, Message]]:
        self.remote.placed(control.Placed({0: "w1", 1: target}, relief=relief))
        return self.said()

    def come(self, number: int = 101, node: str = "w2") -> list[tuple[str, Message]]:
        """The memory is here; what is said then."""
        assert self.hear(node, steering.Packed(number, memory=NAME)) == [
            (node, steering.ReadPiece(number))
        ]
        return self.hear(node, steering.BundlePiece(number, 0, len(MEMORY), MEMORY))

    def files(self) -> list[bytes]:
        return [path.read_bytes() for path in self.folder.glob("*")]


@pytest.fixture
def head(tmp_path: Path) -> Iterator[Sharing]:
    there = Sharing(tmp_path)
    yield there
    there.memories.close()
    assert there.files() == []


def test_an_actor_plays_on_until_its_memory_is_there(head: Sharing) -> None:
    assert head.go() == [("w2", steering.PackMemory(101))]
    head.call(TWO, sample(7, STEPS))
    assert head.said() == [("w2", steering.Call(TWO, sample(7, STEPS), 0))]
    assert head.come() == [("w1", steering.TakeMemory(101))]
    assert head.hear("w1", steering.ReadPiece(101)) == [
        ("w1", steering.BundlePiece(101, 0, len(MEMORY), MEMORY))
    ]
    head.done("w2", TWO, 7, STEPS)
    head.arrive(1, STEPS)
    assert head.hear("w1", steering.MemoryHere(101)) == [
        ("w2", steering.Pack(TWO, 1, without=NAME))
    ]
    head.hear("w2", steering.Packed(1, memory=NAME))
    assert head.hear("w2", steering.BundlePiece(1, 0, len(IMAGE), IMAGE)) == [
        ("w2", steering.End(TWO, leaves=True)),
        ("w1", steering.Start(TWO, 2, STEPS, 1, memory=101)),
    ]


def test_it_is_brought_here_while_the_other_node_has_no_executor_yet(head: Sharing) -> None:
    assert head.go("w4") == [("w2", steering.PackMemory(101))]
    assert head.come() == []
    head.remote.heard("w4", steering.ExecutorUp("w4", 1, 2, "4.1"))
    assert head.said() == [("w4", steering.TakeMemory(101))]


def test_it_is_brought_while_actors_cannot_be_at_work_there_yet(head: Sharing) -> None:
    head.go("w4")
    head.come()
    head.remote.heard("w4", steering.ExecutorUp("w4", 1, 2, "4.1", warm=False))
    assert head.said() == [("w4", steering.TakeMemory(101))]
    assert head.hear("w4", steering.MemoryHere(101)) == [], "it plays on"
    head.remote.heard("w4", steering.ExecutorUp("w4", 1, 2, "4.1"))
    assert head.said() == [("w2", steering.Pack(TWO, 1, without=NAME))]


def test_it_is_brought_anew_to_an_executor_that_began_anew_meanwhile(head: Sharing) -> None:
    head.go("w4")
    head.come()
    for _ in range(2):
        head.remote.heard("w4", steering.ExecutorUp("w4", 1, 2, "4.1", warm=False))
        assert head.said() == [("w4", steering.TakeMemory(101))]


def test_it_is_brought_once_for_all_actors(head: Sharing) -> None:
    head.go()
    head.come()
    head.hear("w1", steering.MemoryHere(101))
    head.go("w2")
    assert head.go() == [("w2", steering.Pack(TWO, 2, without=NAME))]


def test_in_a_hurry_it_is_waited_for_no_longer_than_two_seconds(head: Sharing) -> None:
    head.go()
    head.clock.advance(1.9)
    assert head.go() == [], "said again"
    head.clock.advance(0.1)
    assert head.said() == [("w2", steering.Pack(TWO, 1))]


def test_without_hurry_it_is_waited_for_longer(head: Sharing) -> None:
    head.go(relief=True)
    head.clock.advance(14.9)
    assert head.said() == []
    head.clock.advance(0.1)
    assert head.said() == [("w2", steering.Pack(TWO, 1))]


def test_a_hurry_shortens_a_wait(head: Sharing) -> None:
    head.go(relief=True)
    head.go()
    head.clock.advance(2.0)
    assert head.said() == [("w2", steering.Pack(TWO, 1))]


def test_what_is_here_but_not_there_in_time_is_left_out_and_fetched_with_the_actor(
    head: Sharing,
) -> None:
    head.go()
    head.come()
    head.clock.advance(2.0)
    assert head.said() == [("w2", steering.Pack(TWO, 1, without=NAME))]


@pytest.mark.parametrize("message", [
    steering.Packed(101, "there is none"), steering.Packed(101), steering.BundlePiece(101, 0),
])  # fmt: skip
def test_memory_that_cannot_be_had_travels_with_each_actor(head: Sharing, message: Message) -> None:
    head.go()
    assert head.hear("w2", message) == [("w2", steering.Pack(TWO, 1))]


def test_a_node_that_cannot_take_it_gets_it_with_each_actor(head: Sharing) -> None:
    head.go()
    head.come()
    assert head.hear("w1", steering.MemoryHere(101, "no room")) == [("w2", steering.Pack(TWO, 1))]


def test_a_node_that_does_not_say_whether_it_has_it_is_given_up(head: Sharing) -> None:
    head.go(relief=True)
    head.come()
    head.clock.advance(15.0)
    assert head.said() == [("w2", steering.Pack(TWO, 1))]


def test_nobody_else_can_read_it_or_say_that_it_is_there(head: Sharing) -> None:
    head.go()
    assert head.hear("w3", steering.Packed(101, memory=NAME)) == []
    assert head.come() == [("w1", steering.TakeMemory(101))]
    assert head.hear("w3", steering.ReadPiece(101)) == [("w3", steering.BundlePiece(101, 0))]
    head.hear("w3", steering.MemoryHere(101))
    assert not head.memories.bring("w2", "w3", up=True)
    assert head.hear("w1", steering.MemoryHere(102)) == [("w3", steering.TakeMemory(101))]


def test_a_slow_link_is_no_missing_sign(head: Sharing) -> None:
    """Neither on the way here nor there, piece by piece."""
    head.go(relief=True)
    head.hear("w2", steering.Packed(101, memory=NAME))
    for start in range(len(MEMORY)):
        head.clock.advance(10.0)
        piece = steering.BundlePiece(101, start, len(MEMORY), MEMORY[start : start + 1])
        assert len(head.hear("w2", piece)) == 1
    for start in range(len(MEMORY)):
        head.clock.advance(10.0)
        ((node, given),) = head.hear("w1", steering.ReadPiece(101, start))
        assert (node, given) == (
            "w1",
            steering.BundlePiece(101, start, len(MEMORY), MEMORY[start:]),
        )
    assert head.hear("w1", steering.MemoryHere(101)) == [
        ("w2", steering.Pack(TWO, 1, without=NAME))
    ]


def test_a_node_that_was_given_up_may_still_read_what_an_actor_of_its_needs(head: Sharing) -> None:
    head.go(relief=True)
    head.come()
    head.clock.advance(15.0)
    head.said()
    assert head.hear("w1", steering.ReadPiece(101)) == [
        ("w1", steering.BundlePiece(101, 0, len(MEMORY), MEMORY))
    ]


def test_what_comes_while_bundles_wait_for_their_turn_is_left_out_of_them(head: Sharing) -> None:
    name = ""
    for actor in (7, 8, 9):  # two bundles at a time
        head.bundles.want(actor, "w2", spared=lambda: name)
    name = NAME
    head.said()
    head.bundles.heard("w2", steering.Packed(1, "no"))
    who = Member(ACTORS, 9)
    assert head.said() == [("w2", steering.Pack(who, 3, without=NAME))]


def test_who_waits_for_memory_on_a_slow_link_is_not_given_up(head: Sharing) -> None:
    head.go("w4")
    head.come()
    head.clock.advance(2.0)
    head.said()
    head.hear("w2", steering.Packed(1, memory=NAME))
    head.hear("w2", steering.BundlePiece(1, 0, len(IMAGE), IMAGE))
    assert ("w4", steering.Start(TWO, 2, 0, 1, memory=101)) in head.hear(
        "w4", steering.ExecutorUp("w4", 1, 2, "4.1")
    )
    for _ in range(3):
        head.clock.advance(100.0)
        head.hear("w4", steering.ReadPiece(101))
    assert head.hear("w4", steering.ReadPiece(1)) == [
        ("w4", steering.BundlePiece(1, 0, len(IMAGE), IMAGE))
    ]


def test_what_failed_is_tried_again_after_a_minute(head: Sharing) -> None:
    head.go()
    head.hear("w2", steering.Packed(101, "no room"))
    head.go("w2")
    assert head.memories.bring("w2", "w1", up=True)
    head.clock.advance(60.0)
    assert not head.memories.bring("w2", "w1", up=True)
    assert ("w2", steering.PackMemory(102)) in head.said()


def test_a_node_may_have_removed_what_it_had_a_while_ago(head: Sharing) -> None:
    head.go()
    head.come()
    head.hear("w1", steering.MemoryHere(101))
    head.go("w2")
    head.clock.advance(29.0)
    assert head.memories.bring("w2", "w1", up=True)
    head.clock.advance(1.0)
    assert head.go() == [("w1", steering.TakeMemory(101))]
    assert head.hear("w1", steering.MemoryHere(101)) == [
        ("w2", steering.Pack(TWO, 2, without=NAME))
    ]


def test_who_came_as_an_image_shares_no_memory_with_its_new_neighbours(head: Sharing) -> None:
    head.go()
    head.hear("w2", steering.Packed(101, "there is none"))
    head.hear("w2", steering.Packed(1))
    head.hear("w2", steering.BundlePiece(1, 0, len(IMAGE), IMAGE))
    head.hear("w1", steering.ActorReport(TWO, 2, Ready(0.5, 1, "moved"), 0))
    assert head.go("w3") == [("w1", steering.Pack(TWO, 2))]


def moved(head: Sharing, target: str) -> None:
    """The actor comes to ``target`` as an image that is without its memory."""
    head.hear("w2", steering.Packed(1, memory=NAME))
    head.hear("w2", steering.BundlePiece(1, 0, len(IMAGE), IMAGE))
    head.hear(target, steering.ActorReport(TWO, 2, Ready(0.5, 1, "moved"), 0))


def test_who_came_without_its_memory_needs_it_wherever_it_goes(head: Sharing) -> None:
    """Also once the node is gone that it is of, and with it all other actors that need it."""
    head.go()
    head.come()
    head.hear("w1", steering.MemoryHere(101))
    moved(head, "w1")
    head.remote.heard("w2", steering.ExecutorClosed({}))
    assert head.files() == [MEMORY]
    assert head.go("w3") == [("w3", steering.TakeMemory(101))]
    assert head.hear("w3", steering.MemoryHere(101)) == [
        ("w1", steering.Pack(TWO, 2, without=NAME))
    ]
    head.hear("w1", steering.Packed(2, memory=NAME))
    head.hear("w1", steering.BundlePiece(2, 0, len(IMAGE), IMAGE))
    start = Ready(0.5, 1, "fork")  # there it could not be restored
    head.hear("w3", steering.ActorReport(TWO, 3, start, 0))
    assert head.files() == [], "nobody needs it"


def test_memory_that_its_source_packed_is_not_sent_back(head: Sharing) -> None:
    head.go()
    head.come()
    head.hear("w1", steering.MemoryHere(101))
    moved(head, "w1")
    assert head.go("w2") == [("w2", steering.TakeMemory(101))], "it says that it has it"
    assert head.hear("w2", steering.MemoryHere(101)) == [
        ("w1", steering.Pack(TWO, 2, without=NAME))
    ]


def test_what_is_taken_back_is_waited_for_no_longer(head: Sharing) -> None:
    head.go()
    head.go("w2")
    head.clock.advance(2.0)
    assert head.said() == []
    assert head.remote.passers[TWO].node == "w2"


def test_an_actor_may_go_elsewhere_than_its_memory_went(head: Sharing) -> None:
    head.go()
    head.come()
    assert head.go("w3") == [("w3", steering.TakeMemory(101))]


def test_another_executor_has_another_memory(head: Sharing) -> None:
    head.go()
    head.come()
    assert head.files() == [MEMORY]
    head.remote.heard("w2", steering.ExecutorUp("w2", 1, 2, "4.1"))
    head.said()
    assert head.files() == [], "nobody needs it"
    assert not head.memories.bring("w2", "w1", up=True)
    assert head.said() == [("w2", steering.PackMemory(102))]


def test_it_is_kept_while_an_actor_on_the_move_needs_it(head: Sharing) -> None:
    head.go("w4")
    head.come()
    head.clock.advance(2.0)
    assert head.said() == [("w2", steering.Pack(TWO, 1, without=NAME))]
    head.hear("w2", steering.Packed(1, memory=NAME))
    head.hear("w2", steering.BundlePiece(1, 0, len(IMAGE), IMAGE))
    head.remote.heard("w2", steering.ExecutorClosed({}))
    head.said()
    assert head.files() == [MEMORY]
    assert head.go("w3") == [("w3", steering.Start(TWO, 2, 0, 1, memory=101))]
    assert head.hear("w3", steering.ReadPiece(101)) == [
        ("w3", steering.BundlePiece(101, 0, len(MEMORY), MEMORY))
    ]
    head.hear("w3", steering.ActorReport(TWO, 2, Ready(0.5, 1, "fork"), 0))
    assert head.files() == []


def test_who_has_no_process_does_not_wait_for_memory(head: Sharing) -> None:
    head.remote.end(TWO)
    head.said()
    head.go()
    assert head.remote.passers[TWO].node == "w1"
    assert head.files() == []
