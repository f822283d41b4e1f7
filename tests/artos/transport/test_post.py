"""Messengers over real sockets: order, once, restarts, cuts, rubbish, bounds, ends."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import zmq
from postbox import PATIENCE, Cable, Postbox, calling, fill, serving

from artos.errors import MailboxFull, Refused
from artos.protocol import codec, control, steering
from artos.protocol.message import Message, Refusal, Restarted
from artos.transport import channel, messenger, peers
from artos.transport.channel import Envelope, framed, opened
from artos.transport.keys import Keys, make_keys
from artos.transport.messenger import Messenger
from artos.transport.monitor import SocketMonitor

Joined = tuple[Postbox, Cable, Postbox]


@pytest.fixture
def ipc(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"ipc://{tmp_path_factory.mktemp('s') / 'p'}"


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    make_keys(tmp_path / "keys")
    return Keys.load(tmp_path / "keys")


@pytest.fixture(params=["ipc", "tcp"])
def place(request: pytest.FixtureRequest, ipc: str, keys: Keys) -> tuple[str, Keys | None]:
    return (ipc, None) if request.param == "ipc" else ("tcp://127.0.0.1:*", keys)


def brings(count: int) -> list[Message]:
    return [steering.ReadPiece(number) for number in range(count)]


def test_messages_arrive_in_order_both_ways(place: tuple[str, Keys | None]) -> None:
    with serving(*place) as head, calling(head.messenger.endpoint, place[1]) as worker:
        for message in brings(2000):
            worker.messenger.send("head", message)
            head.messenger.send("w1", message)
        for box, peer in ((head, "w1"), (worker, "head")):
            box.wait_for(brings(2000)[-1], peer)
            assert box.mail == [(peer, message) for message in brings(2000)]


def test_every_worker_is_known_by_its_name(ipc: str) -> None:
    with serving(ipc) as head, calling(ipc, me="w1") as one, calling(ipc, me="w2") as other:
        one.messenger.send("head", steering.ReadPiece(1))
        other.messenger.send("head", steering.ReadPiece(2))
        head.until(lambda: len(head.mail) == 2, "two messages")
        assert set(head.mail) == {("w1", steering.ReadPiece(1)), ("w2", steering.ReadPiece(2))}
        head.messenger.send("w2", control.Bye())
        other.wait_for(control.Bye())
        assert one.messenger.take() == []
        assert set(head.messenger.silent()) == {"w1", "w2"}


def test_a_large_message(place: tuple[str, Keys | None]) -> None:
    archive = control.Archive("0" * 64, os.urandom(20_000_000))
    with serving(*place) as head, calling(head.messenger.endpoint, place[1]) as worker:
        head.messenger.send("w1", archive)
        head.messenger.send("w1", control.Bye())
        worker.wait_for(control.Bye())
        assert worker.messages() == [archive, control.Bye()]


def test_a_worker_may_come_before_the_head(ipc: str) -> None:
    with calling(ipc) as worker:
        worker.messenger.send("head", control.Bye())
        with serving(ipc) as head:
            head.wait_for(control.Bye(), "w1")


def test_nobody_is_silent_who_lives(ipc: str) -> None:
    with serving(ipc) as head, calling(ipc) as worker:
        head.until(lambda: "w1" in head.messenger.silent(), "the worker's first beat")
        start = time.monotonic()
        # Beats only: after a while each has been heard since the start.
        head.until(lambda: head.messenger.silent()["w1"] < time.monotonic() - start, "a beat")
        worker.until(lambda: worker.messenger.silent()["head"] < time.monotonic() - start, "a beat")


def test_whose_connection_has_ended_is_known_until_it_is_back(keys: Keys) -> None:
    with serving("tcp://127.0.0.1:*", keys) as head:
        with calling(head.messenger.endpoint, keys) as worker:
            head.until(lambda: "w1" in head.messenger.silent(), "the worker's first beat")
            worker.messenger.send("head", steering.ReadPiece(1))
            head.wait_for(steering.ReadPiece(1), "w1")
            assert head.messenger.ended() == set()
        head.until(lambda: head.messenger.ended() == {"w1"}, "the end of its connection")
        with calling(head.messenger.endpoint, keys):
            head.until(lambda: head.messenger.ended() == set(), "its return")


def test_a_restarted_worker_is_announced(ipc: str) -> None:
    with serving(ipc) as head:
        with calling(ipc) as worker:
            worker.messenger.send("head", steering.ReadPiece(1))
            head.wait_for(steering.ReadPiece(1), "w1")
        with calling(ipc) as worker:
            worker.messenger.send("head", steering.ReadPiece(2))
            head.wait_for(steering.ReadPiece(2), "w1")
            head.messenger.send("w1", control.Bye())
            worker.wait_for(control.Bye())
    assert head.messages() == [steering.ReadPiece(1), Restarted(), steering.ReadPiece(2)]


def test_a_restarted_head_is_announced(keys: Keys) -> None:
    with ExitStack() as stack:
        head = stack.enter_context(serving("tcp://127.0.0.1:*", keys))
        worker = stack.enter_context(calling(head.messenger.endpoint, keys))
        worker.messenger.send("head", steering.ReadPiece(1))
        head.wait_for(steering.ReadPiece(1), "w1")
        head.messenger.close(0.0)
        again = stack.enter_context(serving(head.messenger.endpoint, keys))
        worker.wait_for(Restarted())
        worker.messenger.send("head", steering.ReadPiece(2))
        again.wait_for(steering.ReadPiece(2), "w1")
        assert again.messages() == [steering.ReadPiece(2)]


# -- links that break ------------------------------------------------------------------------------


@pytest.fixture
def through(keys: Keys) -> Iterator[Joined]:
    """A head, and a worker at the other end of a cable."""
    with (
        serving("tcp://127.0.0.1:*", keys) as head,
        Cable(int(head.messenger.endpoint.rpartition(":")[2])) as cable,
        calling(cable.endpoint, keys) as worker,
    ):
        worker.messenger.send("head", steering.ReadPiece(9_999))
        head.wait_for(steering.ReadPiece(9_999), "w1")
        yield head, cable, worker


def test_connections_that_break_change_nothing(through: Joined) -> None:
    head, cable, worker = through
    for number, message in enumerate(brings(300)):
        worker.messenger.send("head", message)
        head.messenger.send("w1", message)
        if number % 100 == 50:
            head.until(
                lambda n=number: ("w1", steering.ReadPiece(n - 50)) in head.mail, "a message"
            )
            cable.drop()
    for box, peer in ((head, "w1"), (worker, "head")):
        box.wait_for(brings(300)[-1], peer)
    assert head.messages()[1:] == worker.messages() == brings(300)


@pytest.mark.long
def test_a_dead_link_of_some_seconds_changes_nothing(through: Joined) -> None:
    """Longer than connections are given up after; nothing that is sent meanwhile is lost."""
    head, cable, worker = through
    cable.cut = True
    for message in brings(100):
        worker.messenger.send("head", message)
        head.messenger.send("w1", message)
    worker.until(lambda: worker.messenger.silent()["head"] > 6, "silence")
    assert worker.mail == []
    cable.cut = False
    for box, peer in ((head, "w1"), (worker, "head")):
        box.wait_for(brings(100)[-1], peer)
    assert head.messages()[1:] == worker.messages() == brings(100)


# -- peers that misbehave --------------------------------------------------------------------------


@pytest.fixture
def raw(ipc: str) -> Iterator[zmq.Socket[bytes]]:
    with zmq.Context() as context, context.socket(zmq.DEALER) as dealer:
        dealer.linger = 0
        dealer.rcvtimeo = int(PATIENCE * 1000)
        dealer.set(zmq.ROUTING_ID, b"raw#1")
        dealer.connect(ipc)
        yield dealer


def test_rubbish_gets_a_clear_answer(ipc: str, raw: zmq.Socket[bytes]) -> None:
    with serving(ipc) as head, calling(ipc) as worker:
        raw.send_multipart([b"hello"])
        refusal = codec.decode(raw.recv())
        assert isinstance(refusal, Refusal)
        assert head.messenger.malformed == 1
        assert "raw" not in head.messenger.silent()
        worker.messenger.send("head", control.Bye())
        head.wait_for(control.Bye(), "w1")


def test_repeated_and_reordered_frames(ipc: str, raw: zmq.Socket[bytes]) -> None:
    with serving(ipc) as head:
        raw.send_multipart([framed(Envelope(5, 0))])
        answer = opened(raw.recv())
        assert isinstance(answer, Envelope)
        for number in (2, 1, 1, 3, 2, 2, 1, 3, 3):
            content = memoryview(codec.encode(steering.ReadPiece(number)))
            raw.send(framed(Envelope(5, answer.session, number, content=content)))
        head.wait_for(steering.ReadPiece(3), "raw")
        head.messenger.send("raw", control.Bye())
        while not opened(raw.recv()).content:  # type: ignore[attr-defined]
            pass
        head.mail += head.messenger.take()
        assert head.mail == [("raw", steering.ReadPiece(number)) for number in (1, 2, 3)]


def test_a_peer_that_reads_nothing_holds_up_nobody(
    ipc: str, raw: zmq.Socket[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "Channel", partial(channel.Channel, most=50_000_000))
    with serving(ipc) as head, calling(ipc) as worker:
        raw.send_multipart([framed(Envelope(5, 0))])
        head.until(lambda: "raw" in head.messenger.silent(), "the peer that reads nothing")
        with pytest.raises(MailboxFull, match="raw"):
            fill(lambda: head.messenger.send("raw", control.Archive("0" * 64, bytes(1_000_000))))
        head.messenger.send("w1", control.Bye())
        worker.wait_for(control.Bye())
        head.messenger.forget("raw")
        head.messenger.send("raw", control.Bye())


def test_of_two_workers_with_one_name_the_first_is_told(
    ipc: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messenger, "_RENEW", 2.0)
    with serving(ipc) as head, calling(ipc) as first:
        first.messenger.send("head", steering.ReadPiece(1))
        head.wait_for(steering.ReadPiece(1), "w1")
        with calling(ipc) as second:
            second.messenger.send("head", steering.ReadPiece(2))
            head.wait_for(steering.ReadPiece(2), "w1")
            first.until(lambda: bool(first.mail), "word that its name is taken")
            assert "name" in first.mail[0][1].why  # type: ignore[attr-defined]
            head.messenger.send("w1", control.Bye())
            second.wait_for(control.Bye())


def test_who_lost_its_name_calls_no_more(ipc: str) -> None:
    with serving(ipc) as head, messenger.CallingEndpoint(ipc, None, "w1") as line:
        line.maintain(0.0, usurped=True)
        line.maintain(1e6, usurped=True)
        line.wait(0.01, to_send=True)
        assert not line.send(b"", framed(Envelope(1, 0)))
        assert head.messenger.take() == []


def test_who_cannot_connect_again_keeps_what_there_is(
    ipc: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[SocketMonitor] = []

    def noted(socket: Any, kinds: int) -> SocketMonitor:
        made.append(SocketMonitor(socket, kinds))
        return made[-1]

    monkeypatch.setattr(messenger, "SocketMonitor", noted)
    with serving(ipc), messenger.CallingEndpoint(ipc, None, "w1") as line:
        monkeypatch.setattr(messenger, "endpoint_of", lambda _: f"ipc:///{'x' * 200}")
        line.maintain(1e6, usurped=False)
        assert [each.socket.closed for each in made] == [False, True]
        line.wait(0.01, to_send=True)
        monkeypatch.undo()
        line.maintain(1e9, usurped=False)
        assert made[0].socket.closed, "there is another connection now"


# -- beginnings and ends ---------------------------------------------------------------------------


def test_what_is_queued_goes_out_before_the_end(place: tuple[str, Keys | None]) -> None:
    with serving(*place) as head:
        with calling(head.messenger.endpoint, place[1]) as worker:
            for message in brings(500):
                worker.messenger.send("head", message)
            worker.messenger.close(PATIENCE)
        head.mail += head.messenger.take()
        assert head.messages() == brings(500)


def test_an_end_waits_no_longer_than_it_is_told(ipc: str) -> None:
    with calling(ipc) as worker:
        worker.messenger.send("head", control.Bye())
        worker.messenger.close(0.1)
        worker.messenger.close(0.1)
        worker.messenger.send("head", control.Bye())


def test_a_failure_of_the_thread_is_not_silent(ipc: str) -> None:
    def ring() -> None:
        raise RuntimeError("the doorbell is broken")

    with Messenger.serve(ipc, None, ring) as head, calling(ipc) as worker:
        worker.messenger.send("head", control.Bye())
        head._thread.join(PATIENCE)
        assert head.take() == [("w1", control.Bye())]
        with pytest.raises(RuntimeError, match="the doorbell is broken"):
            head.take()
        with pytest.raises(RuntimeError, match="the doorbell is broken"):
            head.send("w1", control.Bye())


def test_an_address_that_is_taken(keys: Keys) -> None:
    with (
        serving("tcp://127.0.0.1:*", keys) as head,
        pytest.raises(Refused, match=head.messenger.endpoint),
    ):
        Messenger.serve(head.messenger.endpoint, keys, threading.Event().set)


@pytest.mark.parametrize("endpoint", ["tcp://127.0.0.1", "nonsense", "ipc://" + "x" * 200])
def test_an_address_that_is_none(endpoint: str, keys: Keys) -> None:
    for make in (
        lambda: Messenger.serve(endpoint, keys, threading.Event().set),
        lambda: Messenger.connect(endpoint, keys, "w1", threading.Event().set),
    ):
        with pytest.raises(Refused, match=r"is no address|cannot"):
            make()


def test_tcp_without_keys_is_refused() -> None:
    with pytest.raises(Refused, match="keys"):
        Messenger.serve("tcp://127.0.0.1:*", None, threading.Event().set)
    with pytest.raises(Refused, match="keys"):
        Messenger.connect("tcp://127.0.0.1:1", None, "w1", threading.Event().set)


def test_beats_are_more_frequent_than_patience() -> None:
    assert channel.BEAT * 3 < messenger._RENEW
