"""Rounds over one plain TCP connection, received directly in place: the limit of a link.

``python -m evaluation.pipelining.sockets_side head|worker``
"""

from __future__ import annotations

import argparse
import socket

import numpy as np

from evaluation.baselines.timing import answer
from evaluation.pipelining.iterations import iterate
from evaluation.pipelining.rounds import OBSERVATIONS, Array, packed
from evaluation.pipelining.shared import (
    Batch,
    Place,
    accepted,
    connected,
    parser,
    rounds_of,
    whole,
)
from evaluation.pipelining.stand_in_learner import Learning

_PORT, _GO = 7001, b"g"


def worker(options: argparse.Namespace) -> None:
    """Send all rounds each time a byte comes, until the head disconnects."""
    rounds = rounds_of(options).values()
    parts = [np.stack([found[OBSERVATIONS] for found in rounds])]
    parts.append(np.stack([packed(found) for found in rounds]))
    with connected(options.head, _PORT) as line:
        while line.recv(1):
            for part in parts:
                line.sendall(flat(part))


def head(options: argparse.Namespace) -> dict[str, float]:
    """Ask for the rounds and receive them into one batch."""
    place, learning = Place(options.actors, options.steps), Learning()
    (line,) = accepted(options.address, _PORT, 1)

    def fetch() -> Batch:
        line.sendall(_GO)
        receive(line, flat(place.observations))
        receive(line, flat(place.small))
        return place.batch()

    with line:
        return iterate(
            lambda: whole(fetch, learning, options.steps), options.iterations, marked=True
        )


def receive(line: socket.socket, memory: memoryview) -> None:
    """Fill ``memory`` from the connection.

    Raises:
        EOFError: the other side disconnected.
    """
    while memory:
        count = line.recv_into(memory)
        if not count:
            raise EOFError("the other side disconnected")
        memory = memory[count:]


def flat(array: Array) -> memoryview:
    """The bytes of a contiguous array."""
    return array.data.cast("B")


def main() -> None:
    """Play one role."""
    options = parser(__doc__).parse_args()
    if options.role == "worker":
        worker(options)
    else:
        answer(head(options), ("numpy",))


if __name__ == "__main__":
    main()
