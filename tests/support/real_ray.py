"""A real Ray on this machine, with several raylets, in an environment of its own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from helpers import ROOT

PACKAGE = "ray==2.60.0"
_SERVE = """
import sys, ray
from ray.cluster_utils import Cluster
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
nodes = {}
print(cluster.address, flush=True)
for line in sys.stdin:
    verb, name = line.split()
    if verb == "add":
        nodes[name] = cluster.add_node(num_cpus=2)
    elif verb == "remove":
        cluster.remove_node(nodes.pop(name), allow_graceful=False)
    print("done", flush=True)
cluster.shutdown()
"""


class RealRay:
    """A Ray cluster that runs, and machines of it that come and go; made by ``real_ray``."""

    def __init__(self, process: subprocess.Popen[str], address: str) -> None:
        self._process, self.address = process, address

    def machine(self, verb: str, name: str) -> None:
        """``add`` a machine of two CPUs, or ``remove`` it, as if it had died."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{verb} {name}\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "done\n"


@contextmanager
def real_ray(python: Path, log: Path) -> Iterator[RealRay]:
    """A Ray cluster whose only machine has two CPUs."""
    with log.open("w") as said:
        process = subprocess.Popen(
            [python, "-c", _SERVE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said,
            text=True, start_new_session=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
    with process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            assert address, log.read_text()
            yield RealRay(process, address)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(60.0)
            except subprocess.TimeoutExpired:
                process.kill()
