"""A real Ray on this machine, with several raylets; its machines and groups come and go."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from artos.errors import ArtosError
from evaluation.core.sources import ROOT
from evaluation.lab.layer import ended, printed
from evaluation.lab.namespaces import until

PACKAGE = "ray==2.60.0"
_EQUAL = {"RAY_worker_niceness": "0"}
"""Ray starts workers at niceness 15, and others would have the CPUs of this one machine first."""
_SERVE = """
import json, os, subprocess, sys, ray
from ray.cluster_utils import Cluster
from ray.util import placement_group_table, remove_placement_group
from ray.util.placement_group import PlacementGroup
answers, sys.stdout = sys.stdout, sys.stderr
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
ray.init(address=cluster.address, log_to_driver=False)
nodes, memory = {}, sys.argv[1]
drain = ("ray.scripts.scripts", "drain-node", "--address", cluster.address,
         "--reason", "DRAIN_NODE_REASON_PREEMPTION", "--reason-message", "a spot machine's notice",
         "--deadline-remaining-seconds", "60", "--node-id")
def groups():
    return {a["name"]: (g, a["state"]) for g, a in placement_group_table().items()
            if a["state"] != "REMOVED"}
def answer(verb, name):
    if verb == "add":
        os.makedirs(f"{memory}/{name}", 0o700, exist_ok=True)
        nodes[name] = cluster.add_node(num_cpus=2, env_vars={"ARTOS_SHM": f"{memory}/{name}"})
    elif verb == "drain":
        words = [sys.executable, "-m", *drain, nodes[name].node_id]
        subprocess.run(words, check=True, stdout=sys.stderr)
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


# Ray's own example of this is not in its wheel.
_AUTOSCALED = """
cluster_name: artos
max_workers: 2
upscaling_speed: 100.0
idle_timeout_minutes: IDLE
provider: {type: fake_multinode, gcs_address: "ADDRESS", use_node_id_as_ip: true,
           disable_node_updaters: true, disable_launch_config_check: true}
auth: {ssh_user: nobody}
head_node_type: head
available_node_types:
  head: {resources: {CPU: HEAD_CPUS}, min_workers: 0, max_workers: 0, node_config: {}}
  machine: {resources: {CPU: 2}, object_store_memory: 80000000, min_workers: 0, max_workers: 2,
            node_config: {}}
docker: {}
file_mounts: {}
file_mounts_sync_continuously: false
cluster_synced_files: []
rsync_exclude: []
rsync_filter: []
initialization_commands: []
setup_commands: []
head_setup_commands: []
worker_setup_commands: []
head_start_ray_commands: []
worker_start_ray_commands: []
"""
_HOST = "import ray; print(ray.util.get_node_ip_address())"
_MACHINES = (
    "import ray; ray.init(log_to_driver=False); print(sum(node['Alive'] for node in ray.nodes()))"
)


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
        self.variables = {"RAY_ADDRESS": str(self._answer())}
        """Environment variables of its clients."""

    def machine(self, verb: str, name: str) -> None:
        """``add`` a machine of two CPUs, ``drain`` it: it ends in a minute, or ``remove`` it.

        One that is removed is gone at once, as if it had died.
        """
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
                env={**os.environ, **_EQUAL, "PYTHONPATH": str(ROOT)},
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


class AutoscaledRay:
    """A Ray cluster whose real autoscaler starts a raylet on this machine for each machine."""

    def __init__(self, python: Path, variables: Mapping[str, str]) -> None:
        self._python, self.variables = python, variables

    def machines(self) -> int:
        """How many there are, the first one included."""
        env = {**os.environ, **self.variables}
        return int(printed("ray.nodes()", ended([self._python, "-c", _MACHINES], 240.0, env=env)))


@contextmanager
def autoscaled_ray(
    python: Path, folder: Path, head_cpus: int = 1, idle: float = 6.0
) -> Iterator[AutoscaledRay]:
    """A Ray cluster of one machine; up to two more, of two CPUs, come when needed.

    Those leave after ``idle`` seconds without work. Clients need a token.

    Raises:
        RayEnded: it did not start.
        DeadlineExceeded: it did not start in time.
    """
    config, log = folder / "autoscaled.yaml", folder / "autoscaled.log"
    host = printed("the address of this machine", ended([python, "-c", _HOST], 240.0)).strip()
    with socket.create_server((host, 0)) as free:
        port = free.getsockname()[1]
    facts = {"ADDRESS": f"{host}:{port}", "HEAD_CPUS": str(head_cpus), "IDLE": f"{idle / 60:g}"}
    text = _AUTOSCALED
    for name, fact in facts.items():
        text = text.replace(name, fact)
    config.write_text(text)
    token = folder / "token"
    token.write_text(secrets.token_hex(32))
    access = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token)}
    env = {
        **os.environ, **access, **_EQUAL, "PYTHONPATH": str(ROOT), "RAY_FAKE_CLUSTER": "1",
        "AUTOSCALER_UPDATE_INTERVAL_S": "1",
    }  # fmt: skip
    with log.open("w") as said, tempfile.TemporaryDirectory(prefix="ray-") as scratch:
        process = subprocess.Popen(
            [python.with_name("ray"), "start", "--head", "--block", "--port", str(port),
             "--num-cpus", str(head_cpus), "--include-dashboard", "false", "--disable-usage-stats",
             "--autoscaling-config", config, "--temp-dir", scratch],
            stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True, env=env,
        )  # fmt: skip
        with process:
            try:
                until(
                    "Ray to start",
                    lambda: "Ray runtime started" in log.read_text() or process.poll() is not None,
                    240.0,
                )
                if process.poll() is not None:
                    raise RayEnded(log)
                yield AutoscaledRay(python, {**access, "RAY_ADDRESS": f"{host}:{port}"})
            finally:
                # `ray stop` would end all clusters of this machine, and SIGTERM takes a minute.
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
