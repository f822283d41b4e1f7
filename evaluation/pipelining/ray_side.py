"""Rounds from Ray actors with ``ray.get``, and weights to them with ``ray.put``.

``python -m evaluation.pipelining.ray_side head|worker|local``. On a cluster the head is a node with
the driver, and each worker is a node with its share of the actors; ``local`` is a single node.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

# Hosts have no common home directory for a token; this does not affect the measurement.
os.environ["RAY_AUTH_MODE"] = "disabled"
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

import ray

from evaluation.baselines.ray_cluster import cluster, results, usual_priority
from evaluation.baselines.timing import answer
from evaluation.pipelining.iterations import Lap, iterate
from evaluation.pipelining.rounds import Recording, Round, round_of
from evaluation.pipelining.shared import SECONDS, Batch, Place, megabytes, parser, whole
from evaluation.pipelining.stand_in_learner import Learning

_PORT = 6379
_LEAST_STORE_BYTES, _ROUNDS_KEPT = 256 << 20, 4
_SHARE = 1e-3


class Sampler:
    """An actor with a round that was sampled beforehand."""

    def __init__(self, recording: str, number: int, steps: int) -> None:
        self._round = round_of(Recording(Path(recording)), number, steps)
        self._load: Any = None

    def ready(self) -> int:
        """An answer shows that the actor is set up."""
        return os.getpid()

    def sample(self) -> tuple[Round, float]:
        """The round, and when it was sampled, by the clock of this machine."""
        return self._round, time.perf_counter()

    def load(self, arrays: Mapping[str, Any]) -> int:
        """Load weights into the network."""
        if self._load is None:
            from evaluation.pipelining.weights import loader  # noqa: PLC0415 (torch takes its time)

            self._load = loader()
        self._load(arrays)
        return os.getpid()


# -- nodes -------------------------------------------------------------------------------------


def store_bytes(options: argparse.Namespace) -> int:
    """Room for a few rounds of all actors, so that Ray never writes one to disk."""
    return _LEAST_STORE_BYTES + int(_ROUNDS_KEPT * megabytes(options) * 1e6)


@contextmanager
def node(options: argparse.Namespace, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A node of the cluster on this host, ended at the end."""
    # Nodes with a common folder would take each other's sockets for their own.
    folder = tempfile.mkdtemp(prefix=f"{options.role}{options.number}-")
    command = [
        sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--disable-usage-stats",
        f"--node-ip-address={options.address}", f"--object-store-memory={store_bytes(options)}",
        f"--temp-dir={folder}", *arguments,
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=usual_priority())
    try:
        yield process
    finally:
        process.terminate()
        process.wait(SECONDS)
        shutil.rmtree(folder, ignore_errors=True)


def worker(options: argparse.Namespace) -> None:
    """Run a node with room for actors for as long as the head lives."""
    mine = f'{{"worker{options.number}": 1}}'
    room = (f"--num-cpus={options.actors}", f"--resources={mine}")
    with node(options, f"--address={options.head}:{_PORT}", *room) as process:
        process.wait()


@contextmanager
def whole_cluster(options: argparse.Namespace) -> Iterator[None]:
    """The head's node, with this driver attached and all workers joined."""
    head = ("--head", f"--port={_PORT}", "--num-cpus=1", "--include-dashboard=false")
    with node(options, *head):
        _attach(options.address)
        try:
            deadline = time.monotonic() + SECONDS
            wanted = {f"worker{n}" for n in range(options.workers)}
            while missing := wanted - {*ray.cluster_resources()}:
                if time.monotonic() > deadline:
                    raise SystemExit(f"Ray: {', '.join(sorted(missing))} did not join the cluster")
                time.sleep(0.1)
            yield
        finally:
            ray.shutdown()


def _attach(address: str) -> None:
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            ray.init(address=f"{address}:{_PORT}", _node_ip_address=address, log_to_driver=False)
        except (ConnectionError, RuntimeError) as error:
            if time.monotonic() > deadline:
                raise SystemExit(f"Ray's head did not start: {error}") from error
            time.sleep(0.5)
        else:
            return


# -- the head ----------------------------------------------------------------------------------


def actors(options: argparse.Namespace) -> list[Any]:
    """All actors, ready, spread over the workers."""
    kind: Any = ray.remote(num_cpus=0)(Sampler)
    spread = options.role == "head"
    made = []
    for number in range(options.actors):
        where = {f"worker{number % options.workers}": _SHARE} if spread else {}
        placed = kind.options(resources=where)
        made.append(placed.remote(str(options.recording), number, options.steps))
    results([each.ready.remote() for each in made], f"{len(made)} actors", SECONDS)
    return made


def moving(options: argparse.Namespace) -> dict[str, float]:
    """Iterations with rounds.

    ``get_s`` is from the last actor's return until ``ray.get`` returns, ``batch_s`` until the
    rounds are copied into one batch.
    """
    samplers, learning = actors(options), Learning()
    place, handed = Place(options.actors, options.steps), dict[str, float]()

    def fetch() -> Batch:
        calls = [each.sample.remote() for each in samplers]
        found: list[tuple[Round, float]] = results(calls, "rounds", SECONDS)
        got, sampled = time.perf_counter(), max(at for _, at in found)
        batch = place.put([each for each, _ in found])
        handed.update(get_s=got - sampled, batch_s=time.perf_counter() - sampled)
        return batch

    def lap() -> Lap:
        return {**whole(fetch, learning, options.steps), **handed}

    return iterate(lap, options.iterations, marked=options.role == "head")


def publishing(options: argparse.Namespace) -> dict[str, float]:
    """Iterations with weights to all actors."""
    from evaluation.pipelining.weights import weights  # noqa: PLC0415 (torch takes its time)

    samplers, arrays = actors(options), weights()

    def lap() -> Lap:
        began = time.perf_counter()
        shared = ray.put(arrays)
        results([each.load.remote(shared) for each in samplers], "weights", SECONDS)
        return {"first_use_s": time.perf_counter() - began}

    return iterate(lap, options.iterations, marked=options.role == "head")


def main() -> None:
    """Play one role."""
    options = parser(__doc__).parse_args()
    if options.role == "worker":
        worker(options)
        return
    measure = partial({"rounds": moving, "weights": publishing}[options.what], options)
    here = cluster(options.actors, store_bytes(options))
    with here if options.role == "local" else whole_cluster(options):
        found = measure()
    answer(found, ("ray", "torch", "numpy"))


if __name__ == "__main__":
    main()
