"""What a messenger does with what comes in: messages, rubbish, revoked keys, peers that restart."""

from __future__ import annotations

from functools import partial
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st
from postbox import fill

from artos.errors import MailboxFull
from artos.protocol import codec, control, steering
from artos.protocol.message import Message, Refusal, Restarted
from artos.specs.members import ACTORS, Member
from artos.transport import peers, untaken
from artos.transport.authorizer import Authorizer
from artos.transport.channel import Channel, Envelope, framed, opened
from artos.transport.peers import FrameSource, Peers
from artos.transport.roles import Holder, KeyRole, Register

LOAD = control.Load(cpu=0.5)
ROUTES = count()


def encoded(message: Envelope | Message) -> bytes:
    return framed(message)


def sealed(number: int, content: bytes) -> Envelope:
    return Envelope(1, 0, number, content=memoryview(content))


class Worker:
    """The other end of a channel to the ``Peers`` under test."""

    def __init__(self, head: Peers, name: str = "w1", session: int = 10, key: str = "") -> None:
        self.head, self.name, self.key = head, name, key
        self.route = b"%s#%d" % (name.encode(), next(ROUTES))
        self.channel = Channel(session, "head")
        self.heard: list[Message] = []
        self.refused: list[str] = []

    @property
    def sender(self) -> FrameSource:
        return FrameSource(self.name, self.key, self.route)

    def exchange(self, now: float = 0.0) -> None:
        for _ in range(3):
            for envelope in self.channel.speak(now):
                answer = self.head.hear(self.sender, [encoded(envelope)], now)
                if answer is not None:
                    self._hear(self.sender.route, encoded(answer))
            self.head.speak(self.name, now, self._hear)

    def _hear(self, route: bytes, frame: bytes) -> bool:
        if route != self.sender.route:
            return False
        envelope = opened(frame)
        if isinstance(envelope, Refusal):
            self.refused.append(envelope.why)
            return True
        assert isinstance(envelope, Envelope)
        self.channel.meet(envelope)
        whole = self.channel.hear(envelope, 0.0)
        if whole is not None:
            self.heard.append(codec.decode(whole))
        return True


@pytest.fixture
def head() -> Peers:
    sessions = count(100)
    return Peers(lambda: next(sessions))


def test_messages_both_ways(head: Peers) -> None:
    worker = Worker(head)
    worker.channel.put(encoded(LOAD))
    head.put("w1", control.Bye(), 0.0)
    worker.exchange()
    assert head.take() == [("w1", LOAD)]
    assert head.take() == []
    assert worker.heard == [control.Bye()]
    assert head.idle


RUBBISH = {
    "no frames": ([], "0 frames"),
    "no MessagePack": ([b"\xc1rubbish"], "extra data"),
    "an unknown message": ([b"\x81\xa4type\xa4Nope"], "Nope"),
    "a count that is none": ([b"\xc1\0\0" + b"\xff" * 33], "an Envelope with"),
    "a message without an envelope": ([encoded(LOAD)], "Load came without an Envelope"),
    "a piece without content": ([encoded(Envelope(1, 0, 1))], "0 bytes with piece 1"),
    "content without a number": ([encoded(sealed(0, b"x"))], "1 bytes with piece 0"),
    "too many frames": ([encoded(sealed(1, b"x")), b"y"], "2 frames"),
}  # fmt: skip


@pytest.mark.parametrize("kind", RUBBISH)
def test_rubbish_is_counted_refused_and_changes_nothing(head: Peers, kind: str) -> None:
    frames, why = RUBBISH[kind]
    refusal = head.hear(FrameSource("w1", ""), frames, 0.0)
    assert refusal is not None
    assert why in refusal.why
    assert head.malformed == 1
    assert head.take() == []
    assert head.names == []


@pytest.mark.parametrize("name", ["", "\x00\x01\x02", "\udcff"])
def test_a_peer_needs_a_name(head: Peers, name: str) -> None:
    assert head.hear(FrameSource(name), [encoded(Envelope(1, 0))], 0.0)
    assert head.names == []


@given(st.lists(st.binary(max_size=40), max_size=4))
def test_any_bytes_at_all_change_nothing(frames: list[bytes]) -> None:
    head = Peers(lambda: 1)
    refusal = head.hear(FrameSource("w1", ""), frames, 0.0)
    assert isinstance(refusal, Refusal)
    assert (head.malformed, head.take(), head.names) == (1, [], [])


@pytest.mark.parametrize(
    "body", [b"rubbish", encoded(Envelope(1, 2)), b"\x81\xa4type\xa9Restarted"]
)
def test_a_bad_message_in_a_good_envelope_is_refused_in_its_turn(head: Peers, body: bytes) -> None:
    worker = Worker(head)
    for each in (encoded(LOAD), body, encoded(control.Bye())):
        worker.channel.put(each)
    worker.exchange()
    assert head.take() == [("w1", LOAD), ("w1", control.Bye())]
    assert head.malformed == 1
    assert [type(message) for message in worker.heard] == [Refusal]


def test_an_impossible_acknowledgement_is_refused(head: Peers) -> None:
    worker = Worker(head)
    worker.exchange()
    head.hear(worker.sender, [encoded(Envelope(10, 100, took=9))], 0.0)
    worker.exchange()
    assert head.malformed == 1
    assert [type(message) for message in worker.heard] == [Refusal]


def test_a_refusal_is_not_answered(head: Peers) -> None:
    """Or two messengers would refuse one another's refusals for ever."""
    assert head.hear(FrameSource("w1", ""), [encoded(Refusal("no"))], 0.0) is None
    assert head.take() == [("w1", Refusal("no"))]
    assert head.malformed == 0


def test_a_restarted_peer_is_announced_before_what_it_says(head: Peers) -> None:
    Worker(head).exchange()
    head.put("w1", control.Unassign("old"), 0.0)
    again = Worker(head, session=11)
    again.channel.put(encoded(LOAD))
    again.exchange()
    assert head.take() == [("w1", Restarted()), ("w1", LOAD)]
    assert again.heard == []


def test_a_forgotten_peer_that_comes_back_is_told(head: Peers) -> None:
    worker = Worker(head)
    worker.exchange()
    head.put("w1", control.Bye(), 0.0)
    head.forget("w1")
    assert head.names == []
    known = worker.channel._theirs
    worker.exchange(now=2.0)
    assert worker.channel._theirs > known
    assert worker.heard == []


def test_who_asked_once_is_not_remembered_for_ever(head: Peers) -> None:
    Worker(head).exchange(now=0.0)
    head.forget_silent(now=299.0)
    assert head.names == ["w1"]
    head.forget_silent(now=301.0)
    assert head.names == []


def test_silence_is_counted_from_the_last_beat(head: Peers) -> None:
    head.put("w2", LOAD, now=3.0)
    worker = Worker(head)
    for now in (5.0, 6.0):
        worker.exchange(now)
    assert head.silent(now=7.0) == {"w2": 4.0, "w1": 1.0}


def test_what_nobody_takes_is_bounded(head: Peers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(untaken, "_MOST", 2)
    worker = Worker(head)
    for number in range(4):
        worker.channel.put(encoded(steering.End(Member(ACTORS, number))))
    worker.exchange()
    assert head.untaken == 2
    first = head.take()
    worker.exchange(now=10.0)
    came = [message.member for _, message in first + head.take()]  # type: ignore[attr-defined]
    assert came == [Member(ACTORS, number) for number in range(4)]


def test_a_peer_that_takes_nothing_is_an_error(
    head: Peers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "Channel", partial(Channel, most=1000))
    with pytest.raises(MailboxFull, match="w1"):
        fill(lambda: head.put("w1", LOAD, 0.0))
    head.forget("w1")
    head.put("w1", LOAD, 0.0)


# -- who is who ------------------------------------------------------------------------------------


def test_a_new_connection_of_a_peer_takes_over_at_once(head: Peers) -> None:
    """Of the same process, which called anew, and of the next one."""
    worker = Worker(head)
    worker.exchange()
    worker.route = b"w1#anew"
    worker.exchange(now=2.0)
    head.put("w1", control.Bye(), 2.0)
    worker.exchange(now=2.0)
    assert worker.heard == [control.Bye()]
    again = Worker(head, session=11)
    again.exchange(now=3.0)
    head.put("w1", control.Bye(), 3.0)
    again.exchange(now=3.0)
    assert (again.heard, worker.heard) == ([control.Bye()], [control.Bye()])


def test_what_a_former_life_still_brings_does_not_turn_mail_to_it(head: Peers) -> None:
    worker, again = Worker(head), Worker(head, session=11)
    worker.exchange()
    worker.channel.put(encoded(LOAD))
    late = [encoded(envelope) for envelope in worker.channel.speak(0.0)]
    again.exchange()
    head.take()
    answers = [head.hear(worker.sender, [frame], 0.0) for frame in late]
    assert head.take() == []
    assert [(type(answer), answer.of) for answer in answers] == [(Envelope, 11)]  # type: ignore[union-attr]
    head.put("w1", control.Bye(), 0.0)
    again.exchange()
    assert (worker.heard, again.heard) == ([], [control.Bye()])


def test_of_two_that_live_the_first_is_told_that_its_name_is_taken(head: Peers) -> None:
    worker, again = Worker(head), Worker(head, session=11)
    for now, each in enumerate((worker, again, worker)):
        each.exchange(float(now))
    assert worker.channel.usurped
    assert not again.channel.usurped


def test_a_clock_that_was_set_back_does_not_matter(head: Peers) -> None:
    Worker(head, session=50).exchange()
    again = Worker(head, session=11)
    again.channel.put(encoded(LOAD))
    for now in (0.0, 2.0):
        again.exchange(now)
    assert head.take() == [("w1", Restarted()), ("w1", LOAD)]


# -- keys ------------------------------------------------------------------------------------------


def with_keys(friends: dict[str, Holder]) -> Peers:
    sessions = count(100)
    return Peers(lambda: next(sessions), Authorizer(lambda: Register(friends)))


def node(name: str) -> Holder:
    return Holder(KeyRole.NODE, name)


def test_a_stranger_gets_no_word_and_leaves_no_trace() -> None:
    head = with_keys({"good": node("w1")})
    assert head.hear(FrameSource("w1", "bad"), [b"rubbish"], 0.0) is None
    Worker(head, key="bad").exchange()
    assert (head.names, head.malformed, head.take()) == ([], 0, [])


def test_a_revoked_peer_gets_nothing_more_and_counts_as_silent() -> None:
    friends = {"key1": node("w1"), "key2": node("w2")}
    head = with_keys(friends)
    worker, other = Worker(head, key="key1"), Worker(head, "w2", key="key2")
    worker.exchange(now=0.0)
    del friends["key1"]
    worker.channel.put(encoded(LOAD))
    head.put("w1", control.Bye(), 1.0)
    head.put("w2", control.Bye(), 1.0)
    worker.exchange(now=1.0)
    other.exchange(now=1.0)
    assert worker.heard == []
    assert head.take() == []
    assert other.heard == [control.Bye()]
    assert head.silent(5.0) == {"w1": 5.0, "w2": 4.0}
    assert head.idle, "what is for a revoked peer must not hold up the end"


def test_a_peer_may_come_back_with_a_new_key() -> None:
    friends = {"old": node("w1")}
    head = with_keys(friends)
    worker = Worker(head, key="old")
    worker.exchange()
    friends.clear()
    worker.exchange(now=2.0)
    friends["new"] = node("w1")
    worker.key = "new"
    worker.exchange(now=4.0)
    head.put("w1", control.Bye(), 4.0)
    head.hear(FrameSource("w1", "old", b"w1#old"), [b"late"], 4.0)
    worker.exchange(now=4.0)
    assert worker.heard == [control.Bye()]
    assert head.take() == [("w1", Restarted())]


def test_nothing_is_said_to_who_has_not_shown_a_key() -> None:
    head = with_keys({"good": node("w1")})
    head.put("w1", control.Bye(), 0.0)
    sent: list[bytes] = []
    head.speak("w1", 0.0, lambda _, frame: sent.append(frame) is None)
    assert sent == []
    worker = Worker(head, key="good")
    worker.exchange()
    assert worker.heard == [control.Bye()]


@pytest.mark.parametrize("late", [False, True])
def test_nobody_gets_the_mail_of_another_by_its_name(late: bool) -> None:
    """Neither before nor after its owner is there."""
    head = with_keys({"key1": node("w1"), "key2": node("w2")})
    worker, thief = Worker(head, key="key1"), Worker(head, "w1", session=99, key="key2")
    for each in (worker, thief) if late else (thief, worker):
        each.channel.put(encoded(LOAD))
        each.exchange()
    head.put("w1", control.Bye(), 1.0)
    for each in (thief, worker):
        each.exchange(now=1.0)
    assert (thief.heard, worker.heard) == ([], [control.Bye()])
    assert head.take() == [("w1", LOAD)]
    assert thief.refused[0].startswith("not allowed: this is the key of node w2 and not of node w1")
    assert not worker.channel.usurped


def test_what_a_role_may_not_say_is_refused_in_words_and_not_handed_on() -> None:
    head = with_keys({"key1": node("w1"), "key2": Holder(KeyRole.USER, "ann")})
    worker, user = Worker(head, key="key1"), Worker(head, "user:ann/1", key="key2")
    for each, message in ((worker, control.Submit({})), (user, LOAD)):
        each.channel.put(encoded(message))
        each.exchange()
        [refusal] = each.heard
        assert isinstance(refusal, Refusal)
        assert type(message).__name__ in refusal.why
    assert head.take() == []
    assert head.malformed == 2


def test_the_post_is_told_when_its_name_is_taken(head: Peers) -> None:
    worker = Peers(lambda: 1)
    worker.meet("head", 0.0)
    sent: list[bytes] = []
    worker.speak("head", 0.0, lambda _, frame: sent.append(frame) is None)
    for of in (1, 5):
        worker.hear(FrameSource("head"), [encoded(Envelope(100, of))], 0.0)
    [(_, told)] = worker.take()
    assert isinstance(told, Refusal)
    assert "name" in told.why
    assert worker.usurped("head")


def test_a_claim_to_know_the_last_of_our_lives_is_refused(head: Peers) -> None:
    """Else our number steps beyond what an Envelope may name, in the thread of the messenger."""
    for of in (2**62 - 1, 2**62):
        assert head.hear(FrameSource("w1"), [encoded(Envelope(5, of))], 0.0) is not None
    head.hear(FrameSource("w1"), [encoded(Envelope(5, 2**62 - 2))], 0.0)
    head.put("w1", LOAD, 0.0)
    sent: list[bytes] = []
    head.speak("w1", 0.0, lambda _, frame: sent.append(frame) is None)
    assert [opened(frame).session for frame in sent] == [2**62 - 1]  # type: ignore[attr-defined]


def test_unread_messages_are_bounded_by_their_bytes_and_refusals_are_too(
    head: Peers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(untaken, "_MOST_BYTES", 100)
    worker = Worker(head)
    for _ in range(10):
        worker.channel.put(encoded(control.Leaving("x" * 60)))
    worker.exchange()
    for name in ("w1", "w2"):
        head.hear(FrameSource(name), [encoded(Refusal("x"))], 0.0)
    came = [(name, type(message)) for name, message in head.take()]
    assert came == [("w1", control.Leaving), ("w2", Refusal), ("w1", control.Leaving)]
    worker.exchange(now=10.0)
    assert head.untaken > 0, "they are sent again"
