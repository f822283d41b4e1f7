"""Rounds through a Redis server on the head, as in serverless elastic frameworks: SET, then GET.

``python -m evaluation.pipelining.redis_side head|worker|local``. Every actor is a process with a
connection of its own. The Python client packs commands and hiredis parses answers, as each is the
faster at that for large values. The weights are SET once; every actor GETs and loads them.
"""

from __future__ import annotations

import argparse
import multiprocessing
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import redis
from redis.connection import PythonRespSerializer

from evaluation.baselines.timing import answer
from evaluation.pipelining.iterations import Lap, iterate
from evaluation.pipelining.rounds import OBSERVATIONS, Round, packed
from evaluation.pipelining.shared import SECONDS, Batch, Place, parser, rounds_of, whole
from evaluation.pipelining.stand_in_learner import Learning

_PORT, _CUTOFF = 6399, 6000
_ROUND, _WEIGHTS, _STOP = b"round", b"weights", b"stop"
_MISSING = "redis-server is missing: apt-get install redis-server"


@contextmanager
def server(address: str) -> Iterator[Any]:
    """Start a server that stores nothing on disk; yields a client."""
    program = shutil.which("redis-server")
    if program is None:
        raise SystemExit(_MISSING)
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [program, "--port", str(_PORT), "--bind", address, "--protected-mode", "no",
             "--save", "", "--appendonly", "no", "--dir", folder],
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            yield client(address)
        finally:
            process.terminate()
            process.wait(SECONDS)


def client(address: str) -> Any:
    """A client, once the server answers.

    Raises:
        SystemExit: the server did not answer in time.
    """
    pack = PythonRespSerializer(_CUTOFF, _encode)
    pool = redis.ConnectionPool(
        host=address, port=_PORT, command_packer=pack, socket_timeout=SECONDS
    )
    found, deadline = redis.Redis(connection_pool=pool), time.monotonic() + SECONDS
    while True:
        try:
            found.ping()
        except redis.ConnectionError as error:
            if time.monotonic() > deadline:
                raise SystemExit(f"no Redis server at {address}:{_PORT}: {error}") from error
            time.sleep(0.05)
        else:
            return found


def _encode(value: Any) -> Any:
    return value if isinstance(value, bytes | memoryview) else str(value).encode()


# -- actors ------------------------------------------------------------------------------------


def actor(number: int, found: Round, address: str) -> None:
    """Obey the orders in this actor's list, and report each in the common list."""
    line, load, small = client(address), None, packed(found)
    line.rpush("done", f"{number} 0")
    while True:
        _, order = line.blpop(f"actor {number}", SECONDS)
        if order == _STOP:
            return
        sampled = time.perf_counter()
        if order == _ROUND:
            line.set(f"observations {number}", found[OBSERVATIONS].data.cast("B"))
            line.set(f"small {number}", small.data)
        else:
            load = load or _loader()
            load(line.get("weights"))
        line.rpush("done", f"{number} {sampled}")


def _loader() -> Any:
    from evaluation.pipelining.weights import loader, weights  # noqa: PLC0415 (torch takes its time)

    shapes, load = {name: array.shape for name, array in weights().items()}, loader()

    def from_bytes(data: bytes) -> None:
        flat, arrays, at = np.frombuffer(data, np.float32), {}, 0
        for name, shape in shapes.items():
            stop = at + int(np.prod(shape))
            arrays[name] = flat[at:stop].reshape(shape)
            at = stop
        load(arrays)

    return from_bytes


def start(options: argparse.Namespace) -> list[Any]:
    """Start the actors of this worker, each in a process."""
    context = multiprocessing.get_context("fork")
    made = [
        context.Process(target=actor, args=(number, found, options.head), daemon=True)
        for number, found in rounds_of(options).items()
    ]
    for process in made:
        process.start()
    return made


# -- the head ----------------------------------------------------------------------------------


class Actors:
    """The head's handle on all actors."""

    def __init__(self, line: Any, count: int) -> None:
        self._line, self._count = line, count

    def ask(self, order: bytes) -> None:
        """Give all actors an order."""
        with self._line.pipeline(transaction=False) as batch:
            for number in range(self._count):
                batch.rpush(f"actor {number}", order)
            batch.execute()

    def done(self) -> Iterator[tuple[int, float]]:
        """The actors, each as soon as it has carried out its order, and when it got that."""
        for _ in range(self._count):
            found = self._line.blpop("done", SECONDS)
            if found is None:
                raise SystemExit(f"an actor has not answered within {SECONDS:g} s")
            number, sampled = found[1].split()
            yield int(number), float(sampled)


def moving(line: Any, actors: Actors, options: argparse.Namespace) -> dict[str, float]:
    """Iterations with rounds; ``batch_s`` is from when the last actor had sampled."""
    place, learning = Place(options.actors, options.steps), Learning()
    handed = dict[str, float]()

    def fetch() -> Batch:
        last = 0.0
        actors.ask(_ROUND)
        for number, sampled in actors.done():
            last = max(last, sampled)
            data = np.frombuffer(line.get(f"observations {number}"), np.uint8)
            place.observations[number] = data.reshape(place.observations.shape[1:])
            place.small[number] = np.frombuffer(line.get(f"small {number}"), np.uint8)
        batch = place.batch()
        handed["batch_s"] = time.perf_counter() - last
        return batch

    def lap() -> Lap:
        return {**whole(fetch, learning, options.steps), **handed}

    return iterate(lap, options.iterations, marked=options.role == "head")


def publishing(line: Any, actors: Actors, options: argparse.Namespace) -> dict[str, float]:
    """Iterations with weights to all actors."""
    from evaluation.pipelining.weights import weights  # noqa: PLC0415 (torch takes its time)

    data = np.concatenate([array.reshape(-1) for array in weights().values()])

    def lap() -> Lap:
        began = time.perf_counter()
        line.set("weights", data.data.cast("B"))
        actors.ask(_WEIGHTS)
        for _ in actors.done():
            pass
        return {"first_use_s": time.perf_counter() - began}

    return iterate(lap, options.iterations, marked=options.role == "head")


_WHAT: Mapping[str, Any] = {"rounds": moving, "weights": publishing}


def head(options: argparse.Namespace) -> dict[str, float]:
    """Start the server, and measure once all actors are ready."""
    with server(options.address) as line:
        local = start(options) if options.role == "local" else []
        actors = Actors(line, options.actors)
        for _ in actors.done():
            pass
        found: dict[str, float] = _WHAT[options.what](line, actors, options)
        actors.ask(_STOP)
        for process in local:
            process.join(SECONDS)
    return found


def main() -> None:
    """Play one role."""
    options = parser(__doc__).parse_args()
    if options.role == "worker":
        for process in start(options):
            process.join()
    else:
        answer(head(options), ("redis", "hiredis", "numpy"))


if __name__ == "__main__":
    main()
