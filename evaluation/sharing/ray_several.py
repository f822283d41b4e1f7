"""Several scripts with Ray on one cluster, which stands before the clock starts.

``python -m evaluation.sharing.ray_several --count 4 --at-once 2 elasticity.ray_adaptive …`` runs so
many copies of a script, so many of them at once, and answers with the measures of all
(``evaluation.sharing.merging``). ``makespan_s`` goes from the first start to the last end, with
each script's own start-up, but not the cluster's. The cluster has logical CPUs for all that run at
once; ``held_cpu_s`` counts no more of them than there are cores.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ray

from evaluation.baselines.ray_cluster import STANDING, cluster, settle
from evaluation.baselines.timing import answer
from evaluation.sharing.merging import together

_STORE_BYTES = 700 << 20


def run(command: Sequence[str], address: str) -> dict[str, float]:
    """Run a script on the cluster at this address; returns its measures.

    Raises:
        SystemExit: it failed.
    """
    environment = {**os.environ, STANDING: address}
    told = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if told.returncode:
        raise SystemExit(f"{command[3]} ended with status {told.returncode}: {told.stderr[-2000:]}")
    answers = [line for line in told.stdout.splitlines() if line.startswith("{")]
    found: dict[str, Any] = json.loads(answers[-1])
    return dict(found["rates"])


def measured(options: argparse.Namespace, address: str) -> Mapping[str, float]:
    """The measures of all copies."""
    module = f"evaluation.{options.script}"
    command = (sys.executable, "-P", "-m", module, *options.words)
    began = time.perf_counter()
    with ThreadPoolExecutor(options.at_once) as threads:
        waiting = [threads.submit(run, command, address) for _ in range(options.count)]
        rates = [each.result() for each in waiting]
    found = together(rates, time.perf_counter() - began)
    most = len(os.sched_getaffinity(0)) * found["makespan_s"]
    return {**found, "held_cpu_s": min(found["held_cpu_s"], most)}


def main() -> None:
    """Measure once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2, help="how many copies")
    parser.add_argument("--at-once", type=int, default=2, help="how many of them at once")
    parser.add_argument("--cpus", type=int, default=2, help="logical CPUs for each at once")
    parser.add_argument("--preload", help="modules, with commas, that Ray's processes import ahead")
    parser.add_argument("script", help="module below evaluation, then its words")
    parser.add_argument("words", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    preload = (options.preload,) if options.preload else ()
    # Ray ends the processes of a script with it, and starts no others ahead.
    cpus = options.count * options.cpus
    with cluster(cpus, options.at_once * _STORE_BYTES, preload):
        settle(cpus)
        found = measured(options, ray.get_runtime_context().gcs_address)
    answer(found, ("ray", "torch", "gymnasium"))


if __name__ == "__main__":
    main()
