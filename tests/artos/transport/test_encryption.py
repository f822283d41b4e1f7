"""Who may talk: without a good key nobody gets a word in or out, over real sockets."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import zmq
from postbox import PATIENCE, calling, serving
from zmq.utils.monitor import recv_monitor_message

from artos.protocol import control, steering
from artos.protocol.message import Refusal
from artos.transport import messenger, sockets
from artos.transport.keys import Keys, make_keys, revoke
from artos.transport.roles import ANY, Holder, KeyRole

HERE = "tcp://127.0.0.1:*"
W1, W2 = Holder(KeyRole.NODE, "w1"), Holder(KeyRole.NODE, "w2")
_BEGUN = zmq.EVENT_HANDSHAKE_SUCCEEDED
_REFUSED = (
    zmq.EVENT_HANDSHAKE_FAILED_AUTH
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_DISCONNECTED
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_keys(tmp_path / "keys", ANY, W1)
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
    secret = Keys.load(folder).secret_of(name)
    return zmq.curve_public(secret), secret


def test_only_a_good_key_opens_the_door(folder: Path, context: sockets.Context) -> None:
    keys = Keys.load(folder)
    with serving(HERE, keys) as head:
        door = head.messenger.endpoint
        assert fate(context, door, *pair(folder, "w1"), head=keys.head) == _BEGUN
        assert fate(context, door) != _BEGUN
        assert fate(context, door, *zmq.curve_keypair(), head=keys.head) != _BEGUN
        assert fate(context, door, *pair(folder, "w1"), head=zmq.curve_keypair()[0]) != _BEGUN
        good = pair(folder, "w1")
        revoke(folder, W1)
        assert fate(context, door, *good, head=keys.head) != _BEGUN
        assert fate(context, door, *pair(folder, "w2"), head=keys.head) == _BEGUN
        assert head.messenger.take() == []
        assert head.messenger.silent() == {}


def test_without_a_gate_nobody_gets_in(folder: Path, context: sockets.Context) -> None:
    keys = Keys.load(folder)
    with sockets.serve(context, HERE, keys) as router:
        good = pair(folder, "w1")
        assert fate(context, sockets.bound(router), *good, head=keys.head) != _BEGUN


def test_who_is_revoked_while_connected_gets_nothing_more(folder: Path) -> None:
    keys = Keys.load(folder)
    with (
        serving(HERE, keys) as head,
        calling(head.messenger.endpoint, keys, "w1") as revoked,
        calling(head.messenger.endpoint, keys, "w2") as other,
    ):
        for box, me in ((revoked, "w1"), (other, "w2")):
            box.messenger.send("head", steering.ReadPiece(1))
            head.messenger.send(me, steering.ReadPiece(1))
            head.wait_for(steering.ReadPiece(1), me)
            box.wait_for(steering.ReadPiece(1))
        revoke(folder, W1)
        head.mail.clear()
        for number in range(2, 5):
            revoked.messenger.send("head", steering.ReadPiece(number))
            for me in ("w1", "w2"):
                head.messenger.send(me, steering.ReadPiece(number))
            other.wait_for(steering.ReadPiece(number))
            other.messenger.send("head", steering.ReadPiece(number))
            head.wait_for(steering.ReadPiece(number), "w2")
        assert revoked.messenger.take() == []
        assert {sender for sender, _ in head.mail} == {"w2"}


@pytest.fixture
def thief(folder: Path, tmp_path: Path) -> Keys:
    """What a worker has that was broken into: one node's key; it says that it is the other's."""
    make_keys(folder, W2)
    stolen = tmp_path / "stolen"
    (stolen / "nodes").mkdir(parents=True)
    shutil.copy(folder / "head.key", stolen)
    shutil.copy(folder / "nodes/w2.key_secret", stolen / "nodes/w1.key_secret")
    return Keys.load(stolen)


@pytest.mark.parametrize("name", ["w1", "w1/4f", "user:owner", "user:owner/1", "any"])
def test_with_the_key_of_one_nobody_is_another(name: str, folder: Path, thief: Keys) -> None:
    """Not while that one is there, and not while it is away; it notices nothing of it."""
    (thief.folder / "users").mkdir()
    for other in ("users/owner", "nodes/any"):
        shutil.copy(folder / "nodes/w2.key_secret", thief.folder / f"{other}.key_secret")
    make_keys(folder)
    with serving(HERE, Keys.load(folder)) as head:
        with calling(head.messenger.endpoint, thief, name) as alone:
            alone.until(lambda: bool(alone.mail), "a refusal")
            head.messenger.send(name, control.Bye())
        with (
            calling(head.messenger.endpoint, Keys.load(folder), name) as owner,
            calling(head.messenger.endpoint, thief, name) as beside,
        ):
            owner.wait_for(control.Bye())
            for number in range(3):
                beside.until(lambda n=number: len(beside.mail) > n, "refusals")
                head.messenger.send(name, control.Unassign(str(number)))
                owner.wait_for(control.Unassign(str(number)))
        for stranger in (alone, beside):
            whys = [m.why for m in stranger.messages() if isinstance(m, Refusal)]
            assert len(whys) == len(stranger.mail)
            assert all("this is the key of node w2" in why for why in whys)
        assert head.messenger.take() == []


def test_nobody_takes_the_place_of_a_connection(
    folder: Path, thief: Keys, context: sockets.Context
) -> None:
    """ZeroMQ hands the place of a route to who comes with the same: so nobody knows another's."""
    keys = Keys.load(folder)
    with ExitStack() as stack:
        gate = stack.enter_context(sockets.ZapHandler(context, keys))
        router = stack.enter_context(sockets.serve(context, HERE, keys))
        end = sockets.bound(router)

        def opened(keys: Keys, route: bytes = b"") -> zmq.Socket[bytes]:
            dealer = stack.enter_context(sockets.connect(context, end, keys, "w1"))
            if route:  # before it has connected, which takes an answer of the gate
                dealer.set(zmq.ROUTING_ID, route)
                dealer.disconnect(end)
                dealer.connect(end)
            while not dealer.poll(0, zmq.POLLOUT):
                if gate.socket.poll(100):
                    gate.answer()
            return dealer

        owner = opened(keys)
        owner.send(b"hello")
        route = router.recv_multipart()[0]
        ended = owner.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        for guess in (b"", b"w1", route.partition(b"#")[0] + b"#" + bytes(16).hex().encode()):
            other = opened(thief, guess)
            other.send(b"mine")
            assert router.recv_multipart()[0] != route
            router.send_multipart([route, b"mail"])
            assert owner.recv() == b"mail"
            assert not other.poll(0)
        assert not ended.poll(0)
        owner.disable_monitor()
        ended.close()


def test_who_was_refused_gets_in_once_its_key_is_there(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messenger, "_RENEW", 0.3)
    make_keys(folder, Holder(KeyRole.NODE, "late"))
    public = folder / "nodes/late.key"
    aside = public.rename(tmp_path / "late.key")
    with (
        serving(HERE, Keys.load(folder)) as head,
        calling(head.messenger.endpoint, Keys.load(folder), "late") as late,
    ):
        late.messenger.send("head", control.Bye())
        late.until(lambda: late.messenger.silent()["head"] > 1, "silence")
        assert head.messenger.silent() == {}
        aside.rename(public)
        head.wait_for(control.Bye(), "late")


def test_frames_say_whose_key_they_came_with(folder: Path, context: sockets.Context) -> None:
    """For those who use the sockets without a messenger."""
    keys = Keys.load(folder)
    with (
        sockets.ZapHandler(context, keys) as gate,
        sockets.serve(context, HERE, keys) as router,
        sockets.connect(context, sockets.bound(router), keys, "w1") as dealer,
    ):
        poller = zmq.Poller()
        for socket in (gate.socket, router):
            poller.register(socket, zmq.POLLIN)
        assert dict(poller.poll(PATIENCE * 1000)) == {gate.socket: zmq.POLLIN}
        gate.answer()
        assert dealer.poll(PATIENCE * 1000, zmq.POLLOUT)
        assert sockets.push(dealer, [b"hello"])
        name, hello = router.recv_multipart(copy=False)
        assert (sockets.name_of(name.bytes), hello.bytes) == ("w1", b"hello")
        assert keys.register().holders[str(hello.get("User-Id"))] == W1
        assert sockets.push(router, [name, b"welcome"])
        assert dealer.recv() == b"welcome"
        assert not sockets.push(router, [b"nobody", b"welcome"])
