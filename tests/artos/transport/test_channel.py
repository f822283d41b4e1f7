"""Messages once and in order, whatever the link does to frames and whoever restarts."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest
from channel_pair import MOVES, Pair, exchange, play
from hypothesis import given, settings
from hypothesis import strategies as st
from postbox import fill

from artos.errors import BadMessage, MailboxFull
from artos.specs.fields import SESSIONS
from artos.transport import channel
from artos.transport.channel import BEAT, Channel, Envelope


@pytest.fixture(autouse=True, scope="module")
def _small_pieces() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(channel, "PIECE", 3)
        patch.setattr(channel, "_PIECES_AHEAD", 5)
        yield


def test_what_is_acknowledged_while_it_waits_to_be_sent_again_is_not_sent_again() -> None:
    one, other = Channel(1, "other"), Channel(2, "one")
    exchange(one, other)
    for message in (b"a", b"b", b"c"):
        one.put(message)
    sent = one.speak(1.0)
    assert [other.hear(envelope, 1.0) for envelope in sent] == [b"a", b"b", b"c"]
    one.unsent(sent[0])  # it looked as if nothing had gone out
    for answer in other.speak(1.0):
        one.hear(answer, 1.0)
    assert one.idle
    one.put(b"d")
    assert [other.hear(envelope, 2.0) for envelope in one.speak(2.0)] == [b"d"]


def test_a_former_life_is_told_from_the_present_one() -> None:
    one, other = Channel(1, "other"), Channel(20, "one")
    exchange(one, other)
    lives = [Envelope(life, 1, 0, 0, False, b"") for life in (19, 20, 21)]
    assert [one.is_former(envelope) for envelope in lives] == [True, False, False]


def test_a_sign_of_life_says_who_is_there_and_what_was_taken() -> None:
    one, other = Channel(1, "other"), Channel(2, "one")
    exchange(one, other)
    one.put(b"a")
    for envelope in one.speak(1.0):
        other.hear(envelope, 1.0)
    sign = other.beat()
    assert (sign.session, sign.of, sign.number, sign.took) == (2, 1, 0, 1)
    one.hear(sign, 1.0)
    assert one.idle


def test_a_sign_of_life_carries_nothing() -> None:
    one, other = Channel(1, "other"), Channel(2, "one")
    exchange(one, other)
    assert one.beat() == Envelope(1, 2, number=0, took=0, more=False)


@pytest.mark.parametrize("since", [0.0, 100.0])
def test_nothing_is_repeated_before_its_time(since: float) -> None:
    """A second without progress, from when it was sent, however long there was nothing to send."""
    one, other = Channel(1, "other"), Channel(2, "one")
    exchange(one, other, since)
    one.hear(other.beat(), since + 50.0)
    one.put(b"a")
    (sent,) = one.speak(since + 50.0)
    for later, again in ((0.5, []), (0.9, []), (1.0, [sent]), (1.5, []), (1.9, []), (2.0, [sent])):
        one.hear(other.beat(), since + 50.0 + later)
        numbered = [envelope for envelope in one.speak(since + 50.0 + later) if envelope.number]
        assert numbered == again, later


def test_what_waits_may_take_up_just_so_much() -> None:
    """Two messages and what their pieces cost beside; room again once one was taken."""
    cost = 3 + channel._OVERHEAD
    one, other = Channel(1, "other", most=2 * cost), Channel(2, "one", most=3)
    exchange(one, other)
    for message in (b"abc", b"def"):
        one.put(message)
    with pytest.raises(MailboxFull) as caught:
        one.put(b"")
    assert (caught.value.name, caught.value.size) == ("to other", 2 * cost)
    first, second = one.speak(1.0)
    assert other.hear(first, 1.0) == b"abc", "of just as many bytes as a message may have"
    for answer in other.speak(1.0):
        one.hear(answer, 1.0)
    one.put(b"ghi")
    assert other.hear(second, 1.0) == b"def"


def test_a_later_life_of_the_peer_begins_with_nothing_to_take() -> None:
    cost = 3 + channel._OVERHEAD
    one = Channel(1, "other", most=cost)
    one.meet(Envelope(2, 1))
    one.put(b"abc")
    assert one.meet(Envelope(3, 1))
    assert one.idle
    one.put(b"def")
    assert [envelope.number for envelope in one.speak(0.0)] == [1], "and from the first number on"
    with pytest.raises(MailboxFull):
        one.put(b"")


def test_who_does_not_know_us_yet_is_answered_at_once() -> None:
    one = Channel(5, "other")
    one.speak(0.0)
    assert one.speak(0.1) == []
    assert not one.meet(Envelope(2, 0)), "the first life is no later one"
    (said,) = one.speak(0.1)
    assert (said.session, said.of) == (5, 2)
    assert one.hear(Envelope(2, 0), 0.2) is None
    assert one.speak(0.2) == [said]
    assert one.hear(Envelope(2, 5), 0.3) is None
    assert one.speak(0.3) == []


def test_who_is_not_known_to_the_present_life_of_the_peer_steps_up() -> None:
    """Though a former one knew it: that was told nothing of who came later."""
    one, other = Channel(5, "other"), Channel(2, "one")
    exchange(one, other)
    one.meet(Envelope(3, 0))
    one.meet(Envelope(3, 9))
    assert (one.session, one.usurped) == (10, False)


def test_a_life_after_which_none_can_come_is_refused() -> None:
    one = Channel(5, "other")
    with pytest.raises(BadMessage, match=f"no end has had as many sessions as {SESSIONS - 1}"):
        one.meet(Envelope(2, SESSIONS - 1))
    one.meet(Envelope(2, SESSIONS - 2))
    assert one.session == SESSIONS - 1


def test_what_could_not_be_sent_is_said_again_at_once() -> None:
    one, other = Channel(1, "other"), Channel(2, "one")
    exchange(one, other)
    one.speak(1.0)
    assert one.speak(1.1) == []
    (beat,) = one.speak(1.0 + BEAT)
    one.unsent(beat)
    assert one.speak(1.0 + BEAT) == [beat], "also where it was only a sign of life"
    for message in (b"a", b"b", b"c"):
        one.put(message)
    sent = one.speak(5.0)
    for envelope in sent[:2]:
        other.hear(envelope, 5.0)
    for answer in other.speak(5.0):
        one.hear(answer, 5.0)
    one.unsent(sent[0])
    assert one.speak(5.0) == sent[2:], "but for what has arrived"


@settings(max_examples=400)
@given(st.lists(MOVES, max_size=80))
def test_everything_arrives_once_and_in_order(moves: list[tuple[str, int, int]]) -> None:
    pair = Pair()
    play(pair, moves, restarts=False)
    pair.settle()
    for end in (0, 1):
        assert pair.arrived[end, 1] == [(1, n) for n in range(pair.put_count[1 - end, 1])]
        assert pair.ends[end].idle
    assert not any(pair.told)


@settings(max_examples=400)
@given(st.lists(MOVES, min_size=20, max_size=120))
def test_restarts_lose_at_most_what_was_under_way(moves: list[tuple[str, int, int]]) -> None:
    pair = Pair()
    pair.settle()
    play(pair, moves, restarts=True)
    pair.settle()
    before = dict(pair.put_count)
    for end in (0, 1):
        pair.put(end)
    pair.settle()
    for end in (0, 1):
        last = pair.arrived[end, pair.lives[end]]
        other = 1 - end, pair.lives[1 - end]
        assert last[-1] == (other[1], before.get(other, 0)), "both live, and it did not arrive"
        everything = [each for (at, _), got in pair.arrived.items() if at == end for each in got]
        assert len(everything) == len(set(everything)), "a message was taken twice"
    for got in pair.arrived.values():
        assert got == sorted(got), "out of order"
        for (life, number), (next_life, next_number) in pairwise(got):
            assert life != next_life or next_number == number + 1, "a hole, though both lived"


def test_a_restart_is_told_to_who_is_left() -> None:
    pair = Pair()
    pair.settle()
    pair.restart(0)
    pair.told.clear()
    pair.settle()
    assert pair.told.count(True) == 1


def test_what_an_old_life_may_have_taken_is_not_told_to_the_new_one() -> None:
    pair = Pair()
    pair.settle()
    pair.put(0)
    pair.speak(0)
    pair.restart(1)
    pair.under_way[1].clear()
    pair.settle()
    assert pair.arrived[1, 2] == []


def test_what_an_old_life_said_is_not_taken_for_the_new_ones_words() -> None:
    pair = Pair()
    pair.settle()
    pair.put(0)
    pair.speak(0)
    late, pair.under_way[1] = pair.under_way[1], []
    pair.restart(0)
    pair.settle()
    pair.under_way[1] = late
    pair.settle()
    assert pair.arrived[1, 1] == []


def test_nothing_is_sent_twice_into_a_cut_link() -> None:
    pair = Pair()
    pair.settle()
    pair.put(0)
    for _ in range(100):
        pair.now += BEAT
        pair.speak(0)
    numbers = [envelope.number for envelope in pair.under_way[1]]
    assert numbers == [1, 2] + 99 * [0]  # two pieces, and beats


def test_a_lost_message_is_sent_again_once_the_peer_is_heard() -> None:
    pair = Pair()
    pair.settle()
    pair.put(0)
    pair.speak(0)
    pair.under_way[1].clear()
    pair.now += BEAT
    pair.speak(1)
    pair.deliver(0, 0)
    pair.speak(0)
    pair.deliver(1, 0)
    pair.deliver(1, 0)
    assert pair.arrived[1, 1] == [(1, 0)]


def test_a_steady_trickle_does_not_put_off_the_repetition(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel, "_PIECES_AHEAD", 1000)
    pair = Pair()
    pair.settle()
    pair.put(0)
    pair.speak(0)
    pair.under_way[1].clear()
    for _ in range(20):
        pair.now += 0.3
        pair.put(0)
        for end in (0, 1):
            pair.speak(end)
        for end in (0, 1):
            while pair.under_way[end]:
                pair.deliver(end, 0)
        if pair.arrived[1, 1]:
            return
    pytest.fail("the first message was never sent again")


def test_a_life_with_a_smaller_number_steps_up() -> None:
    """The clock was set back, or the peer has seen the future."""
    pair = Pair()
    pair.settle()
    pair.ends[0] = Channel(5, "b")
    pair.lives[0] = 2
    pair.put(0)
    pair.put(1)
    pair.settle()
    assert pair.ends[0].session == 1001
    assert pair.arrived[1, 1] == [(2, 0)]
    assert not pair.ends[0].usurped


def test_of_two_with_one_name_the_later_one_stays() -> None:
    head, first, second = Channel(1, "w"), Channel(10, "head"), Channel(20, "head")
    exchange(first, head)
    exchange(second, head)
    assert not second.usurped
    exchange(first, head, now=BEAT)
    assert first.usurped
    assert first.speak(1e9) == []


def test_late_words_of_an_old_head_take_no_name_away() -> None:
    head, worker = Channel(100, "w"), Channel(5, "head")
    exchange(worker, head)
    assert not worker.meet(Envelope(50, of=9))
    assert not worker.usurped


def test_a_peer_that_acknowledges_nothing_costs_a_bounded_amount() -> None:
    end = Channel(1, "w1", most=2000)
    with pytest.raises(MailboxFull, match="w1"):
        fill(lambda: end.put(b"x" * 100))
    assert end._bytes <= 2000


def test_what_was_acknowledged_costs_nothing() -> None:
    pair = Pair()
    for _ in range(3):
        pair.put(0, 30)
        pair.settle()
    assert pair.ends[0]._bytes == 0


def test_without_room_nothing_is_taken_and_nothing_is_lost() -> None:
    head, worker = Channel(1, "w"), Channel(2, "head")
    exchange(worker, head)
    worker.put(b"abc")
    [envelope] = worker.speak(0.0)
    assert head.hear(envelope, 0.0, room=False) is None
    assert head.hear(envelope, 0.0) == b"abc"


def test_an_acknowledgement_of_what_was_never_sent_changes_nothing() -> None:
    head, worker = Channel(1, "w"), Channel(2, "head")
    exchange(worker, head)
    worker.put(b"abc")
    with pytest.raises(BadMessage, match="7"):
        worker.hear(Envelope(1, 2, took=7), 0.0)
    assert not worker.idle


def test_a_message_without_end_is_refused() -> None:
    head = Channel(1, "w", most=10)
    head.meet(Envelope(2, 1))
    endless = [Envelope(2, 1, number, 0, True, memoryview(b"xxx")) for number in (1, 2, 3, 4)]
    for envelope in endless[:3]:
        head.hear(envelope, 0.0)
    with pytest.raises(BadMessage, match="10 bytes"):
        head.hear(endless[3], 0.0)
    assert len(head._part) == 9


@given(st.integers(0, 30), st.integers(0, 5))
def test_what_could_not_be_sent_is_sent_later(length: int, broken: int) -> None:
    head, worker = Channel(1, "w"), Channel(2, "head")
    exchange(worker, head)
    worker.put(b"x" * length)
    frames = worker.speak(0.0)
    sent = frames[:broken]
    if broken < len(frames):
        worker.unsent(frames[broken])
    came = None
    for _ in range(5):
        for envelope in sent:
            came = head.hear(envelope, 0.0) or came
        for envelope in head.speak(0.0):
            worker.hear(envelope, 0.0)
        sent = worker.speak(0.0)
    assert worker.idle
    assert came == (b"x" * length or None)
