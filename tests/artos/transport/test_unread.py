"""What somebody does not read is not kept for him without end."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest
import zmq
from test_peers import LOAD, Worker, encoded

from artos.protocol import control
from artos.transport import peers, sockets
from artos.transport.peers import Peers


@pytest.fixture
def head() -> Peers:
    sessions = count(100)
    return Peers(lambda: next(sessions))


def test_who_does_not_read_is_sent_no_more(tmp_path: Path) -> None:
    context: sockets.Context = zmq.Context()
    try:
        endpoint = f"ipc://{tmp_path}/line"
        server = sockets.serve(context, endpoint, None, queue=0, unsent=10)
        client = sockets.connect(context, endpoint, None, "w1", queue=10)
        assert client.poll(60_000, zmq.POLLOUT)
        client.send(b"here")
        assert server.poll(60_000)
        route, _ = server.recv_multipart()
        sent = sum(sockets.push(server, [route, bytes(1 << 20)]) for _ in range(200))
        assert 0 < sent < 100
    finally:
        context.destroy(linger=0)


def test_who_does_not_read_the_answers_is_not_asked_what_else_it_wants(
    head: Peers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the answers of somebody who only ever asks fill the memory."""
    monkeypatch.setattr(peers, "_PILE", 100)
    worker = Worker(head)
    for _ in range(3):
        worker.channel.put(encoded(LOAD))
    worker.exchange()
    assert len(head.take(1)) == 1
    head.put("w1", control.Leaving("x" * 200), 0.0)
    assert head.take(10) == []
    worker.exchange(now=1.0)
    worker.exchange(now=2.0)
    assert len(head.take(10)) == 2


def test_of_very_many_peers_the_silent_are_forgotten_soon(
    head: Peers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who has a key may call itself by ever new names."""
    monkeypatch.setattr(peers, "_MANY", 2)
    for number in range(3):
        head.meet(f"w{number}", 10.0 * number)
    head.forget_silent(21.0)
    assert head.names == ["w1", "w2"]
