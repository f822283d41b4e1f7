"""Runs one contestant on hosts of its own: a head and workers, joined by links of a given speed.

``python -m evaluation.lab.link --script pipelining.redis_side --python PATH --mbit 1000
ROLE-OPTIONS`` runs the script as head and as worker in network namespaces. It answers with the
head's measures and with ``wire_mb``, ``worker_mb`` and ``moving_cpu_s`` per iteration: the MB that
all hosts put on the wire, the MB that a worker received, and the CPU-seconds of all processes
without the learner's work.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from evaluation.lab.namespaces import Host, Network, why_not
from evaluation.pipelining.iterations import BEGIN, END

_SHM_MB = 6144


@dataclass(frozen=True)
class Reading:
    """The counters of a network: bytes sent by all hosts, received per worker, CPU-seconds used."""

    sent: int
    received: tuple[int, ...]
    cpu: float

    @classmethod
    def of(cls, hosts: Sequence[Host]) -> Reading:
        """Read the counters; the first host is the head."""
        return cls(
            sum(host.sent_bytes() for host in hosts),
            tuple(host.received_bytes() for host in hosts[1:]),
            sum(host.cpu_seconds() for host in hosts),
        )


def costs(before: Reading, after: Reading, iterations: int, learning: float) -> dict[str, float]:
    """The costs of an iteration; ``learning`` is the CPU-seconds of the learner's work in it."""
    received = [b - a for a, b in zip(before.received, after.received, strict=True)]
    return {
        "wire_mb": (after.sent - before.sent) / iterations / 1e6,
        "worker_mb": max(received) / iterations / 1e6,
        "moving_cpu_s": max(0.0, (after.cpu - before.cpu) / iterations - learning),
    }


@dataclass(frozen=True)
class Script:
    """A contestant's script, its interpreter, and the options of both roles."""

    module: str
    python: str
    options: tuple[str, ...]

    def command(self, role: str, host: Host, head: Host, number: int = 0) -> list[str]:
        """The command that runs the script in a role."""
        where = ("--address", host.address, "--head", head.address, "--number", str(number))
        module = f"evaluation.{self.module}"
        return [self.python, "-P", "-m", module, role, *where, *self.options]

    def environment(self) -> dict[str, str]:
        """Lets a baseline's interpreter import ``evaluation`` and no other package of ours."""
        room = os.environ.get("TMPDIR", "")
        alone = self.python != sys.executable and Path(room, "evaluation").exists()
        return {"PYTHONPATH": room} if alone else {}


def measure(
    script: Script, mbit: float | None, workers: int, iterations: int
) -> tuple[dict[str, float], dict[str, str]]:
    """Run the script on a network of its own; returns rates by measure and package versions.

    Raises:
        SystemExit: the head ended without an answer.
    """
    with Network() as network:
        head = network.host("head", _SHM_MB)
        nodes = [network.host(f"worker{number}", _SHM_MB) for number in range(workers)]
        for host in network.hosts:
            host.throttle(mbit)
        settings = {"environment": script.environment()}
        for number, node in enumerate(nodes):
            node.start(*script.command("worker", node, head, number), **settings)
        process = head.start(
            *script.command("head", head, head),
            **settings,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return follow(process, network.hosts, iterations)


def follow(
    process: subprocess.Popen[str], hosts: Sequence[Host], iterations: int
) -> tuple[dict[str, float], dict[str, str]]:
    """Read the counters when the head asks for it, and add the costs to its answer.

    Raises:
        SystemExit: the head ended without an answer.
    """
    readings: dict[str, Reading] = {}
    assert process.stdin is not None
    assert process.stdout is not None
    for line in process.stdout:
        if (word := line.strip()) in (BEGIN, END):
            readings[word] = Reading.of(hosts)
            process.stdin.write("\n")
            process.stdin.flush()
        elif line.startswith("{"):
            found = json.loads(line)
            rates: dict[str, float] = found["rates"]
            learning = rates.pop("learning_cpu_s", 0.0)
            rates |= costs(readings[BEGIN], readings[END], iterations, learning)
            return rates, found["versions"]
    raise SystemExit(f"the head ended without an answer (status {process.wait()})")


def main() -> None:
    """Measure once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--script", required=True, help="module below evaluation")
    parser.add_argument("--python", default=sys.executable, help="interpreter of the script")
    parser.add_argument("--mbit", type=float, help="speed of each host's link (default: no limit)")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--iterations", type=int, default=5)
    options, rest = parser.parse_known_args()
    if why := why_not():
        raise SystemExit(why)
    both = ("--workers", str(options.workers), "--iterations", str(options.iterations))
    script = Script(options.script, options.python, (*rest, *both))
    rates, versions = measure(script, options.mbit, options.workers, options.iterations)
    print(json.dumps({"rates": rates, "versions": versions}), flush=True)


if __name__ == "__main__":
    main()
