"""What somebody does not read is not kept for him without end."""

from __future__ import annotations

from pathlib import Path

import zmq

from artos.transport import sockets


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
