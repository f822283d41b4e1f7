"""A real Ray on this machine, with several raylets; its machines and groups come and go."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from artos.errors import ArtosError
from evaluation.core.sources import ROOT

PACKAGE = "ray==2.60.0"
_SERVE = """
import json, os, sys, ray
from ray.cluster_utils import Cluster
from ray.util import placement_group_table, remove_placement_group
from ray.util.placement_group import PlacementGroup
answers, sys.stdout = sys.stdout, sys.stderr
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
ray.init(address=cluster.address, log_to_driver=False)
nodes, memory = {}, sys.argv[1]
def groups():
    return {a["name"]: (g, a["state"]) for g, a in placement_group_table().items()
            if a["state"] != "REMOVED"}
def answer(verb, name):
    if verb == "add":
        os.makedirs(f"{memory}/{name}", 0o700, exist_ok=True)
        nodes[name] = cluster.add_node(num_cpus=2, env_vars={"ARTOS_SHM": f"{memory}/{name}"})
    elif verb == "remove":
        cluster.remove_node(nodes.pop(name), allow_graceful=False)
    elif verb == "drop":
        for group, _ in [about for each, about in groups().items() if each == name]:
            remove_placement_group(PlacementGroup(ray.PlacementGroupID(bytes.fromhex(group))))
    elif verb == "groups":
        return {name: state for name, (_, state) in groups().items()}
print(json.dumps(cluster.address), file=answers, flush=True)
for line in sys.stdin:
    print(json.dumps(answer(*line.split())), file=answers, flush=True)
ray.shutdown()
cluster.shutdown()
"""


class RayEnded(ArtosError):
    """The process of a Ray cluster does not answer. ``why`` is the end of its log."""

    def __init__(self, log: Path) -> None:
        self.why = log.read_text(errors="replace")[-2000:]
        super().__init__(f"the process of a Ray cluster has ended: {self.why}")


class RealRay:
    """A Ray cluster that runs, and machines of it that come and go; made by ``real_ray``."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self._process, self._log = process, log
        self._one = threading.Lock()  # asks at a time
        self.address = str(self._answer())

    def machine(self, verb: str, name: str) -> None:
        """``add`` a machine of two CPUs, or ``remove`` it, as if it had died."""
        self._asked(verb, name)

    def groups(self) -> dict[str, str]:
        """The state of each placement group, by name."""
        return dict(self._asked("groups", "all"))

    def drop(self, group: str) -> None:
        """Remove a placement group."""
        self._asked("drop", group)

    def _asked(self, verb: str, name: str) -> Any:
        assert self._process.stdin is not None
        with self._one:
            try:
                self._process.stdin.write(f"{verb} {name}\n")
                self._process.stdin.flush()
            except BrokenPipeError:
                raise RayEnded(self._log) from None
            return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RayEnded(self._log)
        return json.loads(line)


@contextmanager
def real_ray(python: Path, log: Path) -> Iterator[RealRay]:
    """A Ray cluster whose first machine has two CPUs; others have shared memory of their own."""
    memory = tempfile.mkdtemp(prefix="artos-ray-", dir="/dev/shm")
    try:
        with log.open("w") as said:
            process = subprocess.Popen(
                [python, "-c", _SERVE, memory], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=said, text=True, start_new_session=True,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )  # fmt: skip
        with process:
            try:
                yield RealRay(process, log)
            finally:
                assert process.stdin is not None
                with suppress(BrokenPipeError):
                    process.stdin.close()
                try:
                    process.wait(60.0)
                except subprocess.TimeoutExpired:
                    process.kill()
    finally:
        shutil.rmtree(memory)
