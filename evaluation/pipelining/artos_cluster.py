"""A whole training run on a cluster of its own hosts: the time of an update from end to end.

``python -m evaluation.pipelining.artos_cluster --mbit 1000 --set pipeline=none`` trains PPO on Pong
with head, workers and user in network namespaces, by the commands that a user types. It answers
with ``iteration_s``, the median time from one grant of sampling to the next, and ``wire_mb``, the
MB of experience and weights on the wire per update.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from artos.transport.keys import make_keys
from evaluation.baselines.timing import answer
from evaluation.lab.namespaces import Host, Network, until, why_not
from triggers.journal import read

_PORT, _RUN = 7000, "run"
_SAMPLE = "actors.sample"
_SECONDS = 500.0
_WARM_UP = 1


def iterations(journal: Iterable[Mapping[str, Any]]) -> list[float]:
    """Seconds from each grant of sampling to the next.

    Raises:
        ValueError: there are too few grants.
    """
    granted = [entry["t"] for entry in journal if entry.get("trigger") == _SAMPLE]
    found = [after - before for before, after in pairwise(granted)][_WARM_UP:]
    if not found:
        raise ValueError(f"{len(granted)} grants of sampling are too few: train for longer")
    return found


def cluster(network: Network, folder: Path, workers: int, mbit: float | None) -> list[str]:
    """Start a head and workers; returns the options by which a user reaches the head."""
    keys = folder / "keys"
    make_keys(keys)
    head = network.host("head")
    nodes = [network.host(f"worker{number}") for number in range(workers)]
    for host in network.hosts:
        host.throttle(mbit)
    endpoint = f"tcp://{head.address}:{_PORT}"
    _artos(head, folder, "head", "--listen", endpoint, "--keys", keys, "--runs", folder / "runs")
    reach = ["--head", endpoint, "--keys", str(keys)]
    quiet = {"stderr": subprocess.DEVNULL}
    until("the head", lambda: _artos(head, folder, "list", *reach, **quiet).wait() == 0, _SECONDS)
    for node in nodes:
        _artos(node, folder, "worker", *reach, "--name", node.name)
    return reach


def _artos(host: Host, folder: Path, *words: object, **options: Any) -> subprocess.Popen[Any]:
    surroundings = {"XDG_CACHE_HOME": str(folder / host.name)}
    options = {"stdout": subprocess.DEVNULL, **options}
    return host.python("-P", "-m", "deploy.cli", *words, environment=surroundings, **options)


def train(options: argparse.Namespace, folder: Path) -> dict[str, float]:
    """Train, and read the measures from the run's records.

    Raises:
        SystemExit: the run failed.
    """
    with Network() as network:
        reach = cluster(network, folder, options.workers, options.mbit)
        steps = options.updates * options.actors * options.steps
        settings = {
            "envs": 1,
            "steps": options.steps,
            "epochs": 1,
            **dict(options.settings),
        }
        pairs = [word for pair in settings.items() for word in ("--set", "{}={}".format(*pair))]
        user = _artos(
            network.hosts[0], folder, "submit", "ppo", *reach, "--env", options.env,
            "--actors", options.actors, "--total-steps", steps, "--run-dir", _RUN, "--wait", *pairs,
            stdout=None,
        )  # fmt: skip
        if status := user.wait(_SECONDS):
            raise SystemExit(f"the run ended with status {status}")
    run = folder / "runs" / _RUN
    summary = json.loads((run / "summary.json").read_text())
    found = iterations(read(run / "journal.jsonl"))
    wire_mb = summary["usage"]["bytes_moved"] / 1e6 / summary["updates"]
    return {"iteration_s": statistics.median(found), "wire_mb": wire_mb}


def main() -> None:
    """Measure once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env", default="PongNoFrameskip-v4")
    parser.add_argument("--mbit", type=float, help="speed of each host's link (default: no limit)")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--actors", type=int, default=16)
    parser.add_argument("--steps", type=int, default=512)
    parser.add_argument("--updates", type=int, default=5)
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        dest="settings",
        metavar="KEY=VALUE",
        type=lambda text: tuple(text.split("=", 1)),
    )
    options = parser.parse_args()
    if why := why_not():
        raise SystemExit(why)
    with tempfile.TemporaryDirectory() as folder:
        found = train(options, Path(folder))
    answer(found, ("torch", "numpy", "gymnasium", "pyzmq"))


if __name__ == "__main__":
    main()
