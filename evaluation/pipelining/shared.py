"""Shared by the contestants that move rounds: options, and an iteration without a pipeline.

A contestant is a script with two roles: the ``head`` learns and answers, a ``worker`` has the
actors. They run on hosts of their own, or both on this host.
"""

from __future__ import annotations

import argparse
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evaluation.pipelining.iterations import Lap, Stopwatch
from evaluation.pipelining.rounds import (
    FRAME,
    OBSERVATION_BYTES,
    OBSERVATIONS,
    SMALL,
    SMALL_BYTES,
    STACK,
    Array,
    Recording,
    Round,
    round_of,
    unpacked,
)
from evaluation.pipelining.stand_in_learner import Learning

SECONDS = 120.0
"""The limit of every wait."""
_RETRY_SECONDS = 0.05


@dataclass(frozen=True)
class Batch:
    """The rounds of A actors with T steps, joined: observations and small keys, (A, T, ...)."""

    observations: Array
    small: Mapping[str, Array]


class Place:
    """Memory for the rounds of all actors, touched ahead so that no iteration pays for that."""

    def __init__(self, actors: int, steps: int) -> None:
        self.observations = np.zeros((actors, steps, STACK, *FRAME), np.uint8)
        self.small = np.zeros((actors, steps * SMALL_BYTES), np.uint8)
        self._steps = steps

    def batch(self) -> Batch:
        """The rounds in this memory, without copying observations."""
        rounds = [unpacked(each, self._steps) for each in self.small]
        return Batch(self.observations, {n: np.stack([r[n] for r in rounds]) for n in SMALL})

    def put(self, rounds: list[Round]) -> Batch:
        """Copy rounds into this memory."""
        for actor, found in enumerate(rounds):
            self.observations[actor] = found[OBSERVATIONS]
        return Batch(self.observations, {n: np.stack([r[n] for r in rounds]) for n in SMALL})


def whole(fetch: Callable[[], Batch], learning: Learning, steps: int) -> Lap:
    """An iteration in which the learner begins once all rounds have arrived."""
    watch = Stopwatch(learning, steps)
    batch = fetch()
    watch.arrived()
    with learning.working():
        learning.preprocess(batch.small)
        learning.learn(batch.observations.reshape(-1, STACK, *FRAME))
    return watch.ended()


def rounds_of(options: argparse.Namespace) -> dict[int, Round]:
    """The rounds of this worker's actors (every ``workers``-th actor), by actor."""
    recording = Recording(options.recording)
    mine = range(options.number, options.actors, options.workers)
    return {actor: round_of(recording, actor, options.steps) for actor in mine}


def megabytes(options: argparse.Namespace) -> float:
    """The MB that an iteration moves, as the learner reads it."""
    return float(options.actors * options.steps * (OBSERVATION_BYTES + SMALL_BYTES)) / 1e6


def parser(description: str | None) -> argparse.ArgumentParser:
    """The options of every contestant."""
    found = argparse.ArgumentParser(description=description)
    found.add_argument("role", choices=("head", "worker", "local"))
    found.add_argument("--what", choices=("rounds", "weights"), default="rounds")
    found.add_argument("--address", default="127.0.0.1", help="of this host")
    found.add_argument("--head", default="127.0.0.1", help="address of the head")
    found.add_argument("--number", type=int, default=0, help="of this worker")
    found.add_argument("--workers", type=int, default=1)
    found.add_argument("--actors", type=int, default=16)
    found.add_argument("--steps", type=int, default=512)
    found.add_argument("--iterations", type=int, default=5)
    found.add_argument("--recording", type=Path, help="folder of a recording of Pong")
    return found


def connected(address: str, port: int) -> socket.socket:
    """A TCP connection to the head, which may still be starting.

    Raises:
        SystemExit: no answer came in time.
    """
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            line = socket.create_connection((address, port), SECONDS)
        except OSError as error:
            if time.monotonic() > deadline:
                raise SystemExit(f"no head at {address}:{port}: {error}") from error
            time.sleep(_RETRY_SECONDS)
        else:
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return line


def accepted(address: str, port: int, count: int) -> list[socket.socket]:
    """The connections of ``count`` workers."""
    with socket.create_server((address, port)) as server:
        server.settimeout(SECONDS)
        lines = [server.accept()[0] for _ in range(count)]
    for line in lines:
        line.settimeout(SECONDS)
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return lines
