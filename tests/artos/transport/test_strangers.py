"""What somebody without a key can do to a listening socket: little, whatever he sends."""

from __future__ import annotations

import resource
from pathlib import Path

import psutil
import pytest
import zmq
from hypothesis import given
from hypothesis import strategies as st
from postbox import PATIENCE, calling, serving
from strangers import strangers

from artos.protocol import control, steering
from artos.protocol.message import Restarted
from artos.transport import doorkeeper, sockets
from artos.transport.channel import Envelope, framed, opened
from artos.transport.connections import Connections
from artos.transport.keys import Keys, make_keys, revoke
from artos.transport.roles import Holder, KeyRole

HERE = "tcp://127.0.0.1:*"
W1, W2 = Holder(KeyRole.NODE, "w1"), Holder(KeyRole.NODE, "w2")


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    make_keys(tmp_path / "keys", W1, W2)
    return Keys.load(tmp_path / "keys")


def test_a_frame_that_is_too_large_ends_its_connection_before_it_is_read(keys: Keys) -> None:
    before = psutil.Process().memory_info().rss
    with serving(HERE, keys) as head, strangers(head.messenger.endpoint, 4) as crowd:
        taken = [each.send(200_000_000, 50_000_000) for each in crowd]
        assert max(taken) < 50_000_000
        head.until(lambda: all(each.is_cut_off for each in crowd), "the end of it")
        assert psutil.Process().memory_info().rss - before < 50_000_000
        assert head.messenger.silent() == {}


def test_strangers_make_room_for_each_other_and_for_friends(
    keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sockets._KEEPALIVE, zmq.HANDSHAKE_IVL, 0)  # which would do that, in 5 s
    monkeypatch.setattr(doorkeeper, "_FOR_STRANGERS", 1)
    some = doorkeeper._NEVER_FEWER
    with (
        serving(HERE, keys) as head,
        calling(head.messenger.endpoint, keys, "w1") as old,
    ):
        old.messenger.send("head", steering.ReadPiece(1))
        head.wait_for(steering.ReadPiece(1), "w1")
        with strangers(head.messenger.endpoint, 5 * some) as crowd:
            for each in crowd:
                each.send(10_000, 5_000)
            with calling(head.messenger.endpoint, keys, "w2") as new:
                for name, box in (("w1", old), ("w2", new)):
                    box.messenger.send("head", steering.ReadPiece(2))
                    head.wait_for(steering.ReadPiece(2), name)
                    head.messenger.send(name, control.Bye())
                    box.wait_for(control.Bye())
            head.until(
                lambda: sum(not each.is_cut_off for each in crowd) <= some, "room for others"
            )
        assert ("w1", Restarted()) not in head.mail


def test_some_descriptors_are_left_for_other_things(
    keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sockets._KEEPALIVE, zmq.HANDSHAKE_IVL, 0)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (20, 20))
    with serving(HERE, keys) as head, strangers(head.messenger.endpoint, 25) as crowd:
        head.until(lambda: sum(each.is_cut_off for each in crowd) >= 15, "the end of most")
        assert not all(each.is_cut_off for each in crowd)


def test_the_connection_of_a_revoked_key_is_cut(keys: Keys) -> None:
    """At once, though it says nothing; and nothing comes over it before that."""
    with (
        zmq.Context() as context,
        serving(HERE, keys) as head,
        sockets.connect(context, head.messenger.endpoint, keys, "w1") as revoked,
        sockets.connect(context, head.messenger.endpoint, keys, "w2") as other,
    ):
        ends = [s.get_monitor_socket(zmq.EVENT_DISCONNECTED) for s in (revoked, other)]
        for each in (revoked, other):
            assert each.poll(PATIENCE * 1000, zmq.POLLOUT)
            each.send(framed(Envelope(1, 0)))
            assert each.poll(PATIENCE * 1000)
        revoke(keys.folder, W1)
        while revoked.poll(0):  # what was under way
            revoked.recv()
        head.messenger.send("w1", control.Bye())
        assert ends[0].poll(PATIENCE * 1000)
        while revoked.poll(0):
            envelope = opened(revoked.recv())
            assert isinstance(envelope, Envelope)
            assert not envelope.content
        assert not ends[1].poll(0)
        for each, end in zip((revoked, other), ends, strict=True):
            each.disable_monitor()
            end.close(0)


# -- which connection ends -------------------------------------------------------------------------


def test_the_stranger_that_waits_for_longest_goes() -> None:
    connections = Connections(strangers=2, most=10)
    assert [connections.opened(number) for number in (3, 4)] == [None, None]
    assert connections.opened(5) == 3
    connections.closed(3)
    connections.heard(4, b"w1")
    assert connections.opened(6) is None
    assert connections.opened(7) == 5


def test_a_friend_is_never_hung_up_on_for_a_newcomer() -> None:
    connections = Connections(strangers=5, most=3)
    for number in (1, 2, 3):
        assert connections.opened(number) is None
        connections.heard(number, b"%d" % number)
    assert connections.opened(4) == 4
    connections.closed(4)
    connections.closed(1)
    assert connections.opened(5) is None
    assert (connections.of(b"1"), connections.of(b"2")) == (None, 2)


def test_a_route_leads_by_its_newest_connection() -> None:
    """The old one of a peer that called again may end after that."""
    connections = Connections(5, 5)
    for number in (1, 2):
        connections.opened(number)
        connections.heard(number, b"w1")
    connections.closed(1)
    assert connections.of(b"w1") == 2
    assert connections.leads(2, b"w1")
    connections.closed(2)
    assert connections.of(b"w1") is None
    assert len(connections) == 0


STEPS = st.lists(
    st.tuples(st.sampled_from(["opened", "closed", "heard"]), st.integers(0, 9)), max_size=60
)


def test_a_route_has_ended_with_its_last_connection_until_it_has_another() -> None:
    connections = Connections(strangers=5, most=9)
    for descriptor, route in ((7, b"w1"), (8, b"w2")):
        connections.opened(descriptor)
        connections.heard(descriptor, route)
    connections.opened(9)
    connections.heard(9, b"w1")
    connections.closed(7)
    assert not connections.has_ended(b"w1"), "it has connected again before"
    connections.closed(8)
    connections.heard(8, b"w2")  # what had come before the end
    assert connections.has_ended(b"w2")
    connections.opened(8)
    assert connections.has_ended(b"w2"), "a stranger may have its descriptor"
    connections.heard(8, b"w2")
    assert not connections.has_ended(b"w2")


def test_few_of_those_that_have_ended_are_remembered() -> None:
    connections = Connections(strangers=5, most=9)
    routes = [b"%d" % number for number in range(Connections.MOST_ENDED + 3)]
    for route in routes:
        connections.opened(1)
        connections.heard(1, route)
        connections.closed(1)
    assert [connections.has_ended(route) for route in routes].count(True) == Connections.MOST_ENDED
    assert not connections.has_ended(routes[0])


@given(STEPS, st.integers(1, 5), st.integers(1, 8))
def test_there_are_never_too_many(steps: list[tuple[str, int]], strangers: int, most: int) -> None:
    connections, friends = Connections(strangers, most), set[int]()
    for what, number in steps:
        if what == "opened":
            friends.discard(number)
            gone = connections.opened(number)
            assert gone not in friends
            if gone is not None:
                connections.closed(gone)
        elif what == "closed":
            connections.closed(number)
            friends.discard(number)
        else:
            connections.heard(number, b"%d" % number)
            if connections.of(b"%d" % number) == number:
                friends.add(number)
        assert len(connections) <= most
        assert len(connections) - len(friends) <= strangers
