"""The other end of a message passer, in a process of its own: prints the firings it gets as JSON.

Usage: passer_peer.py mailbox FILE SIZE COUNT | passer_peer.py zmq ADDRESS COUNT
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import zmq

from artos.buffer.mailbox import Mailbox
from artos.buffer.segment import Segment
from triggers.passers import decode

SECONDS = 30.0


def from_mailbox(path: str, size: str, count: str) -> None:
    box = Mailbox(Segment.attach(Path(path)).memory, 0, int(size), "peer")
    print("ready", flush=True)
    for _ in range(int(count)):
        data = box.get(SECONDS)
        if data is None:
            sys.exit("no firing came in time")
        show(data)


def from_zmq(address: str, count: str) -> None:
    with zmq.Context() as context, context.socket(zmq.PULL) as socket:
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.RCVTIMEO, int(SECONDS * 1000))
        socket.bind(address)
        print("ready", flush=True)
        for _ in range(int(count)):
            show(socket.recv())


def show(data: bytes) -> None:
    print(msgspec.json.encode(decode(data)).decode(), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "mailbox":
        from_mailbox(*sys.argv[2:])
    else:
        from_zmq(*sys.argv[2:])
