"""In which order a sender ships, what holds it back, and how it begins again."""

from __future__ import annotations

from artos.buffer.layout import Consumer
from artos.protocol.data import RowsTaken
from workers.agent.sender import Piece, Sender, Stream, streams

FIRST = Stream(0, ("rewards", "version"), 12)
SECOND = Stream(1, ("frames",), 4000)
ROOM = 1000


def sender(actors: int = 1, room: int = ROOM, **options: int) -> Sender:
    made = Sender((FIRST, SECOND), 100, **{"piece": 16_000, "credit": 1 << 20, **options})
    for actor in range(actors):
        made.place(actor, 5, [0, 0], [0, 0])
    made.greet()
    for actor in range(actors):
        made.take_report(arrivals(actor, room=room, answers=made.number))
    return made


def arrivals(actor: int, rows: int = 0, room: int = ROOM, answers: int = 0) -> RowsTaken:
    written = dict.fromkeys(("rewards", "version", "frames"), rows)
    return RowsTaken(actor, 5, written, room, 0, answers)


def all_of(made: Sender) -> list[Piece]:
    return list(iter(made.next_piece, None))


def told(pieces: list[Piece]) -> list[tuple[int, int, range]]:
    return [(piece.actor, piece.stream.stage, piece.rows) for piece in pieces]


def test_small_keys_of_a_stage_travel_together_and_first() -> None:
    sizes = {"frames": 4000, "rewards": 4, "depth": 9000, "ages": 1}
    stages = (Consumer("a", ("frames", "rewards")), Consumer("b", ("ages", "depth")))
    found = [(each.stage, each.keys) for each in streams(stages, sizes)]
    assert found == [(0, ("rewards",)), (0, ("frames",)), (1, ("ages",)), (1, ("depth",))]


def test_pieces_have_about_one_size_and_the_last_one_says_so() -> None:
    made = sender()
    made.fire(0, 1, 10)
    pieces = all_of(made)
    assert [piece.rows for piece in pieces] == [range(4), range(4, 8), range(8, 10)]
    assert [piece.ends for piece in pieces] == [False, False, True]
    assert {(piece.actor, piece.term, piece.stream) for piece in pieces} == {(0, 5, SECOND)}
    assert made.flight == 40_000


def test_a_piece_never_wraps_and_holds_one_row_at_least() -> None:
    made = sender(piece=1)
    made.fire(0, 1, 2)
    assert [len(piece.rows) for piece in all_of(made)] == [1, 1]
    made = sender(piece=1 << 20)
    made.take_report(arrivals(0, 90))
    made.fire(0, 1, 130)
    assert [piece.rows for piece in all_of(made)] == [range(90, 100), range(100, 130)]


def test_earlier_stages_of_anybody_go_first() -> None:
    made = sender(2)
    made.fire(0, 1, 4)
    made.fire(1, 0, 4)
    made.fire(1, 1, 4)
    made.fire(0, 0, 4)
    assert told(all_of(made)) == [
        (1, 0, range(4)),
        (0, 0, range(4)),
        (0, 1, range(4)),
        (1, 1, range(4)),
    ]


def test_nothing_goes_beyond_the_credit_but_one_piece_always_does() -> None:
    made = sender(credit=20_000)
    made.fire(0, 1, 100)
    assert len(all_of(made)) == 1
    made.take_report(arrivals(0, 4))
    assert len(all_of(made)) == 1
    tight = sender(credit=1)
    tight.fire(0, 1, 100)
    assert len(all_of(tight)) == 1


def test_an_actor_without_room_holds_up_nobody() -> None:
    made = sender(2, room=3)
    made.take_report(arrivals(1))
    made.fire(0, 1, 10)
    made.fire(1, 1, 4)
    pieces = all_of(made)
    assert told(pieces) == [(0, 1, range(3)), (1, 1, range(4))]
    assert pieces[0].ends, "who makes room must hear of what is there"
    made.take_report(arrivals(0, 3, room=10))
    assert told(all_of(made)) == [(0, 1, range(3, 7)), (0, 1, range(7, 10))]


def test_nothing_is_sent_before_the_latest_greeting_was_answered() -> None:
    made = sender()
    made.fire(0, 1, 4)
    before = made.number
    made.greet()
    assert all_of(made) == []
    made.take_report(arrivals(0, answers=before))
    assert all_of(made) == []
    assert made.waits
    made.take_report(arrivals(0, answers=made.number))
    assert told(all_of(made)) == [(0, 1, range(4))]


def test_after_a_greeting_all_that_has_not_arrived_goes_again() -> None:
    made = sender()
    made.fire(0, 1, 8)
    assert len(all_of(made)) == 2
    made.take_report(arrivals(0, 4))
    made.greet()
    assert made.flight == 0
    made.take_report(arrivals(0, 4, answers=made.number))
    assert told(all_of(made)) == [(0, 1, range(4, 8))]


def test_news_of_an_older_term_mean_nothing() -> None:
    made = sender()
    made.fire(0, 1, 4)
    assert not made.take_report(RowsTaken(0, 4, {"frames": 4, "rewards": 4, "version": 4}, 99))
    assert len(all_of(made)) == 1


def test_rows_of_an_actor_that_lives_elsewhere_are_not_waited_for() -> None:
    made = sender(2)
    made.fire(0, 1, 10)
    assert len(all_of(made)) == 3
    assert made.take_report(RowsTaken(0, 6, {"frames": 4, "rewards": 4, "version": 4}, 99)) == {}
    made.fire(0, 1, 20)
    assert all_of(made) == []
    assert (made.flight, made.settled, made.waits) == (0, True, False)
    made.place(0, 7, [0, 10], [0, 4])
    assert not made.settled
    assert made.waits


def test_it_has_settled_when_all_that_fired_arrived() -> None:
    made = sender()
    assert made.settled
    made.fire(0, 0, 4)
    made.fire(0, 1, 4)
    all_of(made)
    assert made.take_report(arrivals(0, 4)) == {0: 4, 1: 4}
    assert made.settled
    assert not made.waits


def test_a_stage_is_as_far_as_its_slowest_stream() -> None:
    made = Sender((Stream(0, ("rewards",), 4), Stream(0, ("frames",), 4000)), 100)
    made.place(0, 5, [4], [0])
    made.greet()
    made.take_report(RowsTaken(0, 5, {"rewards": 0, "frames": 0}, ROOM, 0, made.number))
    assert len(all_of(made)) == 2
    assert made.take_report(RowsTaken(0, 5, {"rewards": 4, "frames": 0}, ROOM)) == {}
    assert made.take_report(RowsTaken(0, 5, {"rewards": 4, "frames": 3}, ROOM)) == {0: 3}
    made.fire(0, 0, 8)
    all_of(made)
    assert made.take_report(RowsTaken(0, 5, {"rewards": 5, "frames": 8}, ROOM)) == {0: 5}


def test_who_leaves_takes_what_was_on_its_way_along() -> None:
    made = sender(2)
    made.fire(0, 1, 10)
    all_of(made)
    made.leave(0)
    assert made.flight == 0
    assert not made.take_report(arrivals(0, 10))
    made.fire(1, 1, 4)
    assert told(all_of(made)) == [(1, 1, range(4))]


def test_news_that_were_overtaken_take_nothing_back() -> None:
    made = sender(room=4)
    made.fire(0, 1, 12)
    assert told(all_of(made)) == [(0, 1, range(4))]
    made.take_report(arrivals(0, 4, room=10))
    made.take_report(arrivals(0, 2, room=6))  # said before the others, heard after them
    assert told(all_of(made)) == [(0, 1, range(4, 8)), (0, 1, range(8, 10))]
    assert made.flight == 6 * SECOND.row_bytes
    assert made.take_report(arrivals(0, 4, room=10)) == {}, "known already"
    assert made.take_report(arrivals(0, 7, room=10)) == {0: 7, 1: 7}
    assert made.flight == 3 * SECOND.row_bytes
    made.take_report(arrivals(0, 9, room=12))
    assert told(all_of(made)) == [(0, 1, range(10, 12))]
    assert made.flight == 3 * SECOND.row_bytes


def test_small_means_below_two_kib_a_row_and_a_stream_knows_its_rows() -> None:
    stages = (Consumer("a", ("x", "y", "z")),)
    found = streams(stages, {"x": 2047, "y": 2048, "z": 1})
    assert found == (Stream(0, ("x", "z"), 2048), Stream(0, ("y",), 2048))


def test_whoever_lives_here_anew_takes_back_what_was_on_its_way() -> None:
    """Placed, gone, or known to live elsewhere: its rows free the credit, and nothing is left."""
    made = sender(2, credit=8 * SECOND.row_bytes)
    for way in (
        lambda: made.place(0, 5, [0, 0], [0, 0]),
        lambda: made.leave(0),
        lambda: made.take_report(RowsTaken(0, 9, {}, ROOM)),
    ):
        made.place(0, 5, [0, 0], [0, 0])
        made.greet()
        for actor in (0, 1):
            made.take_report(arrivals(actor, answers=made.number))
        made.fire(0, 1, 10)
        made.next_piece()
        assert made.flight == 4 * SECOND.row_bytes
        way()
        assert made.flight == 0
        assert made.next_piece() is None, "nobody may send for it before the next greeting"


def test_greetings_have_numbers_in_turn_and_the_first_is_answered_like_others() -> None:
    made = Sender((FIRST, SECOND), 100)
    made.place(0, 5, [0, 4], [0, 0])
    made.take_report(arrivals(0, answers=0))
    assert made.next_piece() is None, "nobody has greeted yet, so nobody can have answered"
    assert made.greet() == {0: 5}
    assert made.number == 1
    assert made.greet() == {0: 5}
    assert made.number == 2
    made.take_report(arrivals(0, answers=2))
    assert told(all_of(made)) == [(0, 1, range(4))]


def test_keys_that_are_not_named_have_not_arrived() -> None:
    made = sender()
    made.fire(0, 0, 4)
    all_of(made)
    assert made.take_report(RowsTaken(0, 5, {"rewards": 4}, ROOM)) == {}
    assert made.take_report(RowsTaken(0, 5, {"rewards": 4, "version": 3}, ROOM)) == {0: 3}
    assert made.flight == FIRST.row_bytes


def test_what_fired_already_fires_nothing_new() -> None:
    """Else a stream would go to the end of the queue, for nothing."""
    made = sender(2)
    for actor in (0, 1):
        made.fire(actor, 1, 2)
    made.fire(0, 1, 2)
    made.fire(0, 1, 1)
    assert told(all_of(made)) == [(0, 1, range(2)), (1, 1, range(2))]


def test_rows_that_arrived_from_elsewhere_are_not_sent() -> None:
    """More has arrived than was sent: another life of the agent had sent it."""
    made = sender()
    made.fire(0, 1, 8)
    assert made.next_piece().rows == range(4)
    made.take_report(arrivals(0, 6))
    assert made.flight == 0
    assert told(all_of(made)) == [(0, 1, range(6, 8))]
    assert made.flight == 2 * SECOND.row_bytes


def test_the_credit_is_what_was_said_last() -> None:
    made = sender()
    made.fire(0, 1, 100)
    made.take_report(RowsTaken(0, 5, {}, ROOM, 5 * SECOND.row_bytes))
    assert len(all_of(made)) == 1, "a second piece of four rows would be too much"
    made.take_report(RowsTaken(0, 5, {}, ROOM, 8 * SECOND.row_bytes))
    assert len(all_of(made)) == 1
    made.take_report(RowsTaken(0, 5, {}, ROOM, 0))
    assert made.credit == 8 * SECOND.row_bytes, "0 means: as before"
