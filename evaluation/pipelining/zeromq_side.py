"""Rounds over a pair of ZeroMQ sockets in pieces of 1 MB, copied into place once.

``python -m evaluation.pipelining.zeromq_side head|worker [--curve]``. The difference that
``--curve`` makes is the cost of encryption alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import zmq
from zmq.utils import z85

from evaluation.baselines.timing import answer
from evaluation.pipelining.iterations import iterate
from evaluation.pipelining.rounds import OBSERVATIONS, packed
from evaluation.pipelining.shared import SECONDS, Batch, Place, parser, rounds_of, whole
from evaluation.pipelining.sockets_side import flat
from evaluation.pipelining.stand_in_learner import Learning

_PORT, _GO = 7001, b"g"
_PIECE, _MOST_QUEUED = 1 << 20, 8
# Both sides know the head's secret here: only the cost of the arithmetic is of interest.
_SECRET = z85.encode(bytes(range(32)))


@contextmanager
def pair(endpoint: str, *, serves: bool, curve: bool) -> Iterator[Any]:
    """One end of a pair of sockets."""
    with zmq.Context() as context, context.socket(zmq.PAIR) as socket:
        socket.linger, socket.rcvtimeo, socket.sndtimeo = 0, int(SECONDS * 1e3), int(SECONDS * 1e3)
        socket.hwm = _MOST_QUEUED
        if curve:
            if serves:
                socket.curve_server, socket.curve_secretkey = True, _SECRET
            else:
                socket.curve_serverkey = zmq.curve_public(_SECRET)
                socket.curve_publickey, socket.curve_secretkey = zmq.curve_keypair()
        if serves:
            socket.bind(endpoint)
        else:
            socket.connect(endpoint)
        yield socket


def worker(options: argparse.Namespace) -> None:
    """Send all rounds each time the head asks, until this process is ended."""
    rounds = rounds_of(options).values()
    parts = [np.stack([found[OBSERVATIONS] for found in rounds])]
    parts.append(np.stack([packed(found) for found in rounds]))
    endpoint = f"tcp://{options.head}:{_PORT}"
    with pair(endpoint, serves=False, curve=options.curve) as socket:
        socket.send(_GO)
        while socket.recv():
            for part in parts:
                for start in range(0, part.nbytes, _PIECE):
                    socket.send(flat(part)[start : start + _PIECE], copy=False)


def head(options: argparse.Namespace) -> dict[str, float]:
    """Ask for the rounds and copy them into one batch."""
    place, learning = Place(options.actors, options.steps), Learning()
    endpoint = f"tcp://{options.address}:{_PORT}"
    with pair(endpoint, serves=True, curve=options.curve) as socket:
        socket.recv()

        def fetch() -> Batch:
            socket.send(_GO)
            for memory in (flat(place.observations), flat(place.small)):
                _receive(socket, memory)
            return place.batch()

        return iterate(
            lambda: whole(fetch, learning, options.steps), options.iterations, marked=True
        )


def _receive(socket: Any, memory: memoryview) -> None:
    at = 0
    while at < len(memory):
        frame = socket.recv(copy=False)
        memory[at : at + len(frame.buffer)] = frame.buffer
        at += len(frame.buffer)


def main() -> None:
    """Play one role."""
    options = parser(__doc__)
    options.add_argument("--curve", action="store_true", help="encrypt and authenticate")
    chosen = options.parse_args()
    if chosen.role == "worker":
        worker(chosen)
    else:
        answer(head(chosen), ("pyzmq", "numpy"))


if __name__ == "__main__":
    main()
