"""Who may talk: without a good key nobody gets a word in or out, over real sockets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq
from postbox import PATIENCE, calling, serving
from zmq.utils.monitor import recv_monitor_message

from artos.transport import lines, sockets, wire
from artos.transport.keys import Keys, make_keys, revoke

ANY = "tcp://127.0.0.1:*"
_BEGUN = zmq.EVENT_HANDSHAKE_SUCCEEDED
_REFUSED = (
    zmq.EVENT_HANDSHAKE_FAILED_AUTH
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_DISCONNECTED
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("cluster", "w1"):
        make_keys(tmp_path / "keys", name)
    return tmp_path / "keys"


@pytest.fixture
def context() -> Iterator[zmq.Context[zmq.Socket[bytes]]]:
    with zmq.Context() as context:
        yield context


def fate(context: sockets.Context, endpoint: str, *pair: bytes, head: bytes = b"") -> int:
    """What comes of a connection with these keys: success, or how it was refused."""
    with context.socket(zmq.DEALER) as dealer:
        dealer.linger = 0
        if pair:
            dealer.curve_publickey, dealer.curve_secretkey = pair
            dealer.curve_serverkey = head
        monitor = dealer.get_monitor_socket(_BEGUN | _REFUSED)
        monitor.rcvtimeo = int(PATIENCE * 1000)
        dealer.connect(endpoint)
        event = int(recv_monitor_message(monitor)["event"])
        dealer.disable_monitor()
        monitor.close()
        return event


def pair(folder: Path, name: str) -> tuple[bytes, bytes]:
    secret = Keys.load(folder, name).secret_of(name)
    return zmq.curve_public(secret), secret


def test_only_a_good_key_opens_the_door(folder: Path, context: sockets.Context) -> None:
    keys = Keys.load(folder)
    with serving(ANY, keys) as head:
        door = head.post.endpoint
        assert fate(context, door, *pair(folder, "w1"), head=keys.head) == _BEGUN
        assert fate(context, door) != _BEGUN
        assert fate(context, door, *zmq.curve_keypair(), head=keys.head) != _BEGUN
        assert fate(context, door, *pair(folder, "w1"), head=zmq.curve_keypair()[0]) != _BEGUN
        good = pair(folder, "w1")
        revoke(folder, "w1")
        assert fate(context, door, *good, head=keys.head) != _BEGUN
        assert fate(context, door, *pair(folder, "cluster"), head=keys.head) == _BEGUN
        assert head.post.take() == []
        assert head.post.silent() == {}


def test_without_a_gate_nobody_gets_in(folder: Path, context: sockets.Context) -> None:
    keys = Keys.load(folder)
    with sockets.serve(context, ANY, keys) as router:
        good = pair(folder, "w1")
        assert fate(context, sockets.bound(router), *good, head=keys.head) != _BEGUN


def test_who_is_revoked_while_connected_gets_nothing_more(folder: Path) -> None:
    keys = Keys.load(folder)
    with (
        serving(ANY, keys) as head,
        calling(head.post.endpoint, Keys.load(folder, "w1"), "w1") as revoked,
        calling(head.post.endpoint, Keys.load(folder, "cluster"), "w2") as other,
    ):
        for box, me in ((revoked, "w1"), (other, "w2")):
            box.post.send("head", wire.End(1))
            head.post.send(me, wire.End(1))
            head.wait_for(wire.End(1), me)
            box.wait_for(wire.End(1))
        revoke(folder, "w1")
        head.mail.clear()
        for number in range(2, 5):
            revoked.post.send("head", wire.End(number))
            for me in ("w1", "w2"):
                head.post.send(me, wire.End(number))
            other.wait_for(wire.End(number))
            other.post.send("head", wire.End(number))
            head.wait_for(wire.End(number), "w2")
        assert revoked.post.take() == []
        assert {sender for sender, _ in head.mail} == {"w2"}


def test_who_was_refused_gets_in_once_its_key_is_there(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "_RENEW", 0.3)
    make_keys(folder, "late")
    public = folder / "nodes/late.key"
    aside = public.rename(tmp_path / "late.key")
    with (
        serving(ANY, Keys.load(folder)) as head,
        calling(head.post.endpoint, Keys.load(folder, "late"), "late") as late,
    ):
        late.post.send("head", wire.Bye())
        late.until(lambda: late.post.silent()["head"] > 1, "silence")
        assert head.post.silent() == {}
        aside.rename(public)
        head.wait_for(wire.Bye(), "late")


def test_frames_say_whose_key_they_came_with(folder: Path, context: sockets.Context) -> None:
    """For those who use the sockets without a post."""
    keys = Keys.load(folder)
    with (
        sockets.Gate(context, keys) as gate,
        sockets.serve(context, ANY, keys) as router,
        sockets.connect(context, sockets.bound(router), Keys.load(folder, "w1"), "w1") as dealer,
    ):
        poller = zmq.Poller()
        for socket in (gate.socket, router):
            poller.register(socket, zmq.POLLIN)
        assert dict(poller.poll(PATIENCE * 1000)) == {gate.socket: zmq.POLLIN}
        gate.answer()
        assert dealer.poll(PATIENCE * 1000, zmq.POLLOUT)
        assert sockets.push(dealer, [b"hello"])
        name, hello = router.recv_multipart(copy=False)
        assert (name.bytes, hello.bytes) == (b"w1", b"hello")
        assert keys.accepts(str(hello.get("User-Id")))
        assert sockets.push(router, [b"w1", b"welcome"])
        assert dealer.recv() == b"welcome"
        assert not sockets.push(router, [b"nobody", b"welcome"])
