"""Actors that move by their image, without nodes: who is asked for what, and what if it fails."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from remote_head import ONE, STEPS, TWO, Head, sample

from artos.protocol import control, steering
from artos.protocol.invocations import Ready
from artos.protocol.message import Message
from artos.specs.members import ACTORS, Member
from artos.system.exit_report import ExitReport

IMAGE = b"what it was"
ELSEWHERE = {0: "w1", 1: "w1"}


class Moving(Head):
    """Actor 1 lives on w2, where images can be made, and is told to go to w1.

    It shares no memory with others.
    """

    def __init__(self, folder: Path, there: str = "4.1", here: str = "4.1") -> None:
        super().__init__(folder)
        self.folder = folder / "bundles"
        for node, criu in (("w1", there), ("w2", here), ("w3", there)):
            self.remote.heard(node, steering.ExecutorUp(node, 1, 2, criu))
        self.place({0: "w1", 1: "w2"})
        self.remote.start(ONE)
        self.remote.start(TWO)
        self.said()

    def said(self) -> list[tuple[str, Message]]:
        said = super().said()
        for node, message in said:
            if isinstance(message, steering.PackMemory):
                self.remote.heard(node, steering.Packed(message.number, "there is none"))
        if any(isinstance(message, steering.PackMemory) for _, message in said):
            said += super().said()
        return [each for each in said if not isinstance(each[1], steering.PackMemory)]

    def hear(self, node: str, *messages: Message) -> list[tuple[str, Message]]:
        for message in messages:
            self.remote.heard(node, message)
        self.reported = self.reports()
        return self.said()

    def go(self) -> None:
        """Actor 1 moves, and what that begins with is there."""
        self.place(ELSEWHERE)
        assert self.said() == [("w2", steering.Pack(TWO, 1))]

    def fetch(self) -> list[tuple[str, Message]]:
        """Its image is fetched from w2; what is said then."""
        assert self.hear("w2", steering.Packed(1)) == [("w2", steering.ReadPiece(1, 0))]
        first, rest = IMAGE[:4], IMAGE[4:]
        assert self.hear("w2", steering.BundlePiece(1, 0, len(IMAGE), first)) == [
            ("w2", steering.ReadPiece(1, 4))
        ]
        return self.hear("w2", steering.BundlePiece(1, 4, len(IMAGE), rest))

    def files(self) -> list[bytes]:
        return [path.read_bytes() for path in self.folder.glob("*")]


@pytest.fixture
def head(tmp_path: Path) -> Iterator[Moving]:
    there = Moving(tmp_path)
    yield there
    there.bundles.close()


BEGINS_ANEW = [("w2", steering.End(TWO)), ("w1", steering.Start(TWO, 2, 0))]


def test_its_image_is_saved_before_it_can_go_on_if_its_node_may_be_gone_soon(head: Moving) -> None:
    head.place({0: "w1", 1: "w4"})
    assert head.said() == []
    head.clock.advance(2.0)
    assert head.said() == [("w2", steering.Pack(TWO, 1))]


def test_it_works_on_until_it_can_elsewhere_if_there_is_no_hurry(head: Moving) -> None:
    head.remote.placed(control.Placed({0: "w1", 1: "w4"}, relief=True))
    assert head.said() == []
    head.remote.heard("w4", steering.ExecutorUp("w4", 1, 2, "4.1"))
    assert head.said() == [("w2", steering.Pack(TWO, 1))]


def test_it_goes_on_elsewhere_once_its_image_is_here(head: Moving, logged: list[str]) -> None:
    head.go()
    head.call(TWO, sample(7, STEPS))
    assert head.fetch() == [
        ("w2", steering.End(TWO, leaves=True)),
        ("w1", steering.Start(TWO, 2, 0, 1)),
        ("w1", steering.Call(TWO, sample(7, STEPS), 0)),
    ]
    assert head.moved == [TWO]
    assert head.remote.placement_view.unplaced(TWO) == "an image from w2"
    assert head.hear("w1", steering.ReadPiece(1)) == [
        ("w1", steering.BundlePiece(1, 0, len(IMAGE), IMAGE))
    ]
    assert head.files() == [IMAGE]
    assert head.hear("w1", steering.ActorReport(TWO, 2, Ready(0.5, 1, "moved"), 0)) == []
    assert head.reported == [(TWO, Ready(0.5, 1, "moved", ("w2", "w1")))]
    assert head.remote.placement_view.unplaced(TWO) == ""
    assert (head.files(), logged) == ([], [])


def test_that_its_node_has_no_actor_left_is_known_at_once(head: Moving) -> None:
    """Such a node may leave; until then it is held and paid for."""
    head.go()
    assert not head.remote.emptied
    head.fetch()
    assert head.remote.emptied


def test_its_image_is_not_asked_for_while_something_is_under_way(head: Moving) -> None:
    head.call(TWO, sample(7, STEPS))
    head.said()
    head.place(ELSEWHERE)
    assert head.said() == []
    head.done("w2", TWO, 7, STEPS)
    head.arrive(1, STEPS)
    assert head.hear("w2") == [("w2", steering.Pack(TWO, 1))]
    assert head.fetch()[1] == ("w1", steering.Start(TWO, 2, STEPS, 1))


def test_who_is_prepared_goes_with_its_image_too(head: Moving) -> None:
    head.remote.retire(TWO)
    head.remote.prepare(TWO)
    head.said()
    head.go()
    assert head.fetch()[1] == ("w1", steering.Prepare(TWO, 2, 0, 1))


@pytest.mark.parametrize(("here", "there"), [("", "4.1"), ("4.1", ""), ("4.1", "4.2")])
def test_where_an_image_is_of_no_use_it_goes_on_from_what_it_held(
    tmp_path: Path, here: str, there: str, logged: list[str]
) -> None:
    head = Moving(tmp_path, there, here)
    head.place(ELSEWHERE)
    assert head.said() == [("w2", steering.Pack(TWO, 1, image=False))]
    head.hear("w2", steering.Packed(1, held=True))
    assert head.hear("w2", steering.BundlePiece(1, 0, len(IMAGE), IMAGE)) == [
        ("w2", steering.End(TWO, leaves=True)),
        ("w1", steering.Start(TWO, 2, 0, 1, held=True)),
    ]
    head.hear("w1", steering.ActorReport(TWO, 2, Ready(0.5, 1, "fork"), 0))
    assert head.reported == [(TWO, Ready(0.5, 1, "state", ("w2", "w1")))]
    assert (head.files(), logged) == ([], [])


def test_without_a_place_to_go_to_it_waits_as_an_image(head: Moving) -> None:
    head.place({0: "w1"})
    assert head.said() == [("w2", steering.Pack(TWO, 1))]
    assert head.fetch() == [("w2", steering.End(TWO, leaves=True))]
    head.clock.advance(1000.0)
    assert head.remote.placement_view.unplaced(TWO) == "a node with a free slot"
    head.place(ELSEWHERE)
    assert head.said() == [("w1", steering.Start(TWO, 2, 0, 1))]


# -- it comes to nothing ---------------------------------------------------------------------------


def test_who_cannot_be_packed_begins_anew(head: Moving, logged: list[str]) -> None:
    head.go()
    assert head.hear("w2", steering.Packed(1, "a socket is open")) == BEGINS_ANEW
    assert logged == ["actor 1 begins anew when it leaves w2: a socket is open"]


def test_who_began_anew_goes_by_its_image_the_next_time(head: Moving) -> None:
    head.go()
    head.hear("w2", steering.Packed(1, "a socket is open"))
    head.place({0: "w1", 1: "w2"})
    assert head.said() == [("w1", steering.Pack(TWO, 2))]


def test_only_the_node_that_it_leaves_has_its_image(head: Moving) -> None:
    head.go()
    assert head.hear("w1", steering.Packed(1), steering.Packed(1, "no")) == []
    assert head.hear("w2", steering.Packed(1)) == [("w2", steering.ReadPiece(1))]


def test_a_piece_that_does_not_fit_is_the_end_of_a_bundle(head: Moving, logged: list[str]) -> None:
    head.go()
    head.hear("w2", steering.Packed(1))
    assert head.hear("w2", steering.BundlePiece(1, 9, 20, b"?")) == BEGINS_ANEW
    assert "bytes 9 to 10 do not fit" in logged[0]
    assert head.files() == []


def test_where_nothing_can_be_kept_it_begins_anew(head: Moving, logged: list[str]) -> None:
    head.folder.touch()
    head.go()
    assert head.hear("w2", steering.Packed(1)) == BEGINS_ANEW
    assert "is a link or a file" in logged[0]
    head.folder.unlink()


@pytest.mark.parametrize("fetched", [False, True])
def test_a_bundle_of_which_there_is_no_sign_is_given_up(
    head: Moving, fetched: bool, logged: list[str]
) -> None:
    head.go()
    if fetched:
        head.clock.advance(44.0)
        head.hear("w2", steering.Packed(1))
    head.clock.advance(44.0)
    assert head.hear("w2") == []
    head.clock.advance(1.0)
    head.remote.step()
    assert head.hear("w2") == BEGINS_ANEW
    assert "no sign of its image for 45 s" in logged[0]
    assert head.hear("w2", steering.BundlePiece(1, 0, len(IMAGE), IMAGE)) == []


def test_a_move_that_is_taken_back_is_none(head: Moving, logged: list[str]) -> None:
    head.go()
    head.call(TWO, sample(7, STEPS))
    head.hear("w2", steering.Packed(1))
    head.place({0: "w1", 1: "w2"})
    assert head.said() == [("w2", steering.Call(TWO, sample(7, STEPS), 0))]
    assert head.hear("w2", steering.BundlePiece(1, 0, len(IMAGE), IMAGE)) == []
    assert (head.files(), logged) == ([], [])


def test_an_image_of_before_is_not_taken_for_one_of_now(head: Moving) -> None:
    head.go()
    head.place({0: "w1", 1: "w2"})
    head.place(ELSEWHERE)
    assert head.said() == [("w2", steering.Pack(TWO, 2))]
    assert head.hear("w2", steering.Packed(1), steering.BundlePiece(1, 0, len(IMAGE), IMAGE)) == []
    assert head.hear("w2", steering.Packed(2)) == [("w2", steering.ReadPiece(2, 0))]


def test_who_dies_while_it_is_packed_begins_anew(head: Moving) -> None:
    head.go()
    head.hear("w2", steering.Died(TWO, 1, "killed", None, False, False, 0))
    ((member, death),) = head.reported
    assert (member, type(death)) == (TWO, ExitReport)
    head.remote.end(TWO)
    head.remote.start(TWO)
    assert head.hear("w2", steering.Packed(1)) == BEGINS_ANEW


def test_a_node_that_is_lost_takes_its_half_bundle_along(head: Moving) -> None:
    head.go()
    head.hear("w2", steering.Packed(1), steering.BundlePiece(1, 0, len(IMAGE), IMAGE[:4]))
    head.place(ELSEWHERE, "w2")
    assert [member for member, _ in head.reports()] == [TWO]
    head.remote.end(TWO)
    head.remote.start(TWO)
    assert head.said()[-1] == ("w1", steering.Start(TWO, 2, 0))
    assert head.files() == []


def test_who_is_put_away_needs_no_image(head: Moving) -> None:
    head.go()
    head.remote.retire(TWO)
    assert head.hear("w2") == [("w2", steering.Retire(TWO)), ("w2", steering.End(TWO))]
    assert head.hear("w2", steering.Packed(1)) == []


def test_who_is_put_away_on_its_way_begins_anew_when_it_is_wanted_again(head: Moving) -> None:
    head.place({0: "w1"})
    head.said()
    head.fetch()
    head.remote.retire(TWO)
    assert head.files() == []
    head.remote.prepare(TWO)
    head.place(ELSEWHERE)
    assert head.said()[-1] == ("w1", steering.Prepare(TWO, 2, 0))


# -- there -----------------------------------------------------------------------------------------


def test_an_image_of_no_use_is_named(head: Moving, logged: list[str]) -> None:
    head.go()
    head.fetch()
    assert head.hear("w1", steering.BundleRejected(1, "another kernel")) == []
    assert logged == ["actor 1, which left w2, begins anew: another kernel"]
    assert head.remote.placement_view.unplaced(TWO) == ""
    assert head.hear("w1", steering.ReadPiece(1)) == [("w1", steering.BundlePiece(1, 0))]
    head.hear("w1", steering.ActorReport(TWO, 2, Ready(0.5), 0))
    assert head.reported == [(TWO, Ready(0.5))]
    assert head.files() == []


def test_only_the_node_where_it_goes_gets_it_or_can_refuse_it(
    head: Moving, logged: list[str]
) -> None:
    head.go()
    head.fetch()
    head.up("w3")
    head.said()
    assert head.hear("w3", steering.ReadPiece(1)) == [("w3", steering.BundlePiece(1, 0))]
    assert head.hear("w3", steering.BundleRejected(1, "mine now")) == []
    assert logged == []
    assert head.hear("w1", steering.ReadPiece(1)) == [
        ("w1", steering.BundlePiece(1, 0, len(IMAGE), IMAGE))
    ]


def test_it_may_have_to_move_on_before_it_is_there(head: Moving) -> None:
    head.go()
    head.fetch()
    head.place({0: "w1", 1: "w3"})
    assert head.said() == [
        ("w1", steering.End(TWO, leaves=True)), ("w3", steering.Start(TWO, 3, 0, 1)),
    ]  # fmt: skip
    assert head.hear("w3", steering.ReadPiece(1)) == [
        ("w3", steering.BundlePiece(1, 0, len(IMAGE), IMAGE))
    ]
    head.place({0: "w1"})
    head.said()
    head.clock.advance(1000.0)
    head.place(ELSEWHERE)
    assert head.said() == [("w1", steering.Start(TWO, 4, 0, 1))]


def test_a_place_that_gives_no_sign_of_it_is_waited_for_no_longer(
    head: Moving, logged: list[str]
) -> None:
    head.go()
    head.fetch()
    head.clock.advance(119.0)
    head.hear("w1", steering.ReadPiece(1))
    head.clock.advance(119.0)
    head.remote.step()
    assert head.remote.placement_view.unplaced(TWO) == "an image from w2"
    head.clock.advance(1.0)
    head.remote.step()
    assert head.remote.placement_view.unplaced(TWO) == ""
    assert "no sign of it for 120 s" in logged[0]


def test_a_place_that_is_lost_before_it_is_there(head: Moving) -> None:
    head.go()
    head.fetch()
    head.place({0: "w3", 1: "w3"}, "w1")
    assert head.files() == []


# -- several ---------------------------------------------------------------------------------------


def test_a_node_makes_two_bundles_at_a_time(head: Moving, logged: list[str]) -> None:
    bundles = head.bundles
    for actor in range(4):
        bundles.want(actor, "w2")
        bundles.want(actor, "w2")
    bundles.want(4, "w9")
    assert head.said() == [
        ("w2", steering.Pack(ONE, 1)), ("w2", steering.Pack(TWO, 2)),
        ("w9", steering.Pack(Member(ACTORS, 4), 5)),
    ]  # fmt: skip
    head.clock.advance(4.0)
    assert bundles.heard("w2", steering.Packed(2, "no")) == 1
    assert head.said() == [("w2", steering.Pack(Member(ACTORS, 2), 3))]
    assert bundles.give_up_late() == []
    head.clock.advance(1.0)
    assert bundles.give_up_late() == [3]
    assert "actor 3 begins anew when it leaves w2: bundles of other actors" in logged[-1]
    bundles.want(5, "w2")
    assert head.said() == []
    bundles.drop(0)
    assert head.said() == [("w2", steering.Pack(Member(ACTORS, 5), 6))]


def test_a_node_that_is_lost_is_not_asked_for_the_next(head: Moving) -> None:
    head.go()
    for actor in (8, 9):
        head.bundles.want(actor, "w2")
    assert head.said() == [("w2", steering.Pack(Member(ACTORS, 8), 2))]
    head.place(ELSEWHERE, "w2")
    assert head.said() == []
    assert head.bundles.is_settled(9)
    head.bundles.want(7, "w1")
    head.bundles.want(6, "w1")
    head.bundles.want(5, "w1")
    assert len(head.said()) == 2
    head.bundles.close()
    assert head.said() == []


def test_what_a_run_that_died_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / "bundles").mkdir()
    (tmp_path / "bundles" / "1").touch()
    head = Moving(tmp_path)
    assert not head.folder.exists()
    head.go()
    head.fetch()
    assert head.folder.exists()
    head.bundles.close()
    head.bundles.close()
    assert not head.folder.exists()


def test_nobody_wishes_for_what_there_cannot_be(head: Moving) -> None:
    head.go()
    head.fetch()
    with pytest.raises(Exception, match="bundle 1 ends before byte 99"):
        head.remote.heard("w1", steering.ReadPiece(1, 99))
