"""Ways to start a cluster of two workers with two slots each: by hand, and by an engine."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol

from artos.errors import ArtosError, Refused
from artos.transport.address import FILE, published_in
from deploy.client.head_client import HeadClient
from evaluation.lab import slurm, sshd
from evaluation.lab.layer import PATIENCE, Layer, ended, layer, printed
from evaluation.lab.packages import python_with
from evaluation.lab.raylets import PACKAGE, RealRay, real_ray
from evaluation.lab.slurm import Slurm

NAME, WORKERS, SLOTS = "bench", 2, 2
BY_HAND, SSH, SLURM, RAY = "by hand", "ssh", "Slurm", "Ray"
_ARTOS = ("-m", "deploy.cli")


class Towards(NamedTuple):
    """How a cluster is reached."""

    head: str
    keys: Path

    def client(self) -> HeadClient:
        """A user's client."""
        return HeadClient(self.head, self.keys)


class Way(Protocol):
    """A way to have a cluster."""

    def up(self) -> Towards:
        """Start it, and return when all workers have joined."""

    def down(self) -> None:
        """End it, and return when nothing of it is left."""


class ByHand:
    """Daemons that are started one by one."""

    def __init__(self, there: Layer) -> None:
        self._there, self._folder = there, there.folder / "by-hand"

    def up(self) -> Towards:
        """Start a head, then workers, each on a node of its own."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir()
        keys, address = self._folder / "keys", self._folder / "head.json"
        self._there.run(sys.executable, *_ARTOS, "keys", str(keys))
        self._start(
            "head", "head", "--listen", "tcp://127.0.0.1:0", "--publish", str(address),
            "--keys", str(keys), "--runs", str(self._folder / "runs"),
        )  # fmt: skip
        self._there.until(address.exists)
        for number in range(WORKERS):
            self._start(
                f"worker-{number}", "worker", "--head", f"{FILE}{address}", "--keys", str(keys),
                "--name", f"hand-{number}", "--slots", str(SLOTS),
            )  # fmt: skip
        towards = Towards(published_in(address).endpoint, keys)
        with towards.client() as client:
            self._there.until(lambda: sum(node.alive for node in client.cluster().nodes) == WORKERS)
        return towards

    def _start(self, name: str, *words: str) -> None:
        command = shlex.join([sys.executable, *_ARTOS, *words])
        log, pid = self._folder / f"{name}.log", self._folder / f"{name}.pid"
        self._there.start_node(f"sh -c 'echo $$ >{pid}; exec {command} >{log} 2>&1'")

    def down(self) -> None:
        """End the head, so that runs save, then the workers."""
        for units in ("head*.pid", "worker*.pid"):
            files = [*self._folder.glob(units)]
            for file in files:
                self._there.tried("kill", "-TERM", file.read_text().strip())
            for file in files:
                self._there.until(partial(self._has_ended, file.read_text().strip()))
                file.unlink()

    def _has_ended(self, pid: str) -> bool:
        return self._there.tried("kill", "-0", pid).returncode != 0


class ByEngine:
    """``artos up`` and ``artos down``, as commands."""

    def __init__(
        self, run: Callable[..., str], engine: str, words: Sequence[str], nodes: str = str(WORKERS)
    ) -> None:
        self._run, self._engine, self._words, self._nodes = run, engine, words, nodes
        self._name = f"{NAME}-{engine}"

    def up(self) -> Towards:
        """``artos up``."""
        told = self._run(
            *_ARTOS, "up", "--on", self._engine, "--nodes", self._nodes, "--slots", str(SLOTS),
            "--name", self._name, "--wait", "200", "--json", *self._words,
        )  # fmt: skip
        facts = json.loads(told)
        if facts["missing"]:
            raise Refused(facts["missing"])
        return Towards(facts["address"], Path(facts["keys"]))

    def down(self) -> None:
        """``artos down``."""
        self._run(*_ARTOS, "down", self._name)


def by_slurm(there: Slurm | Layer, nodes: str = str(WORKERS)) -> ByEngine:
    """The way by a Slurm, whose head is not preempted."""

    def inside(*words: str) -> str:
        return there.run(sys.executable, *words)

    return ByEngine(inside, "slurm", ("--head-options=--partition=high",), nodes)


class Places(NamedTuple):
    """All ways on this machine, and the engines behind them."""

    folder: Path
    ways: dict[str, Way]
    slurm: Slurm
    ray: RealRay


@contextmanager
def places(folder: Path, say: Callable[[str], None]) -> Iterator[Places]:
    """A real sshd, Slurm and Ray on this machine; nothing of them is left afterwards.

    Raises:
        LayerFailed: there can be no layer here, which needs root and Debian's packages.
    """
    with ExitStack() as stack:
        say("installing Slurm, an sshd and Ray, in a layer of their own")
        packages = (*slurm.PACKAGES, *sshd.PACKAGES)
        there = stack.enter_context(layer(folder, *packages, provides=["slurmctld", "sshd"]))
        sshd.serve(there, 17922)
        batch = slurm.serve(there, 17817)
        python = python_with(folder / "python", PACKAGE)
        ray = stack.enter_context(real_ray(python, folder / "ray.log"))
        for machine in ("m1", "m2", "m3"):
            ray.machine("add", machine)
        hosts = folder / "hosts"
        hosts.write_text("\n".join(sshd.HOSTS))

        def inside(*words: str) -> str:
            return there.run(sys.executable, *words)

        def beside(*words: str) -> str:
            return _beside(there, ray, python, *words)

        ways: dict[str, Way] = {
            BY_HAND: ByHand(there),
            SSH: ByEngine(
                inside, "ssh",
                ("--hosts", str(hosts), f"--worker-options={' '.join(sshd.flags(there))}"),
            ),
            SLURM: by_slurm(there),
            RAY: ByEngine(beside, "ray", ("--head-options=node:__internal_head__=0.001",)),
        }  # fmt: skip
        try:
            yield Places(folder, ways, batch, ray)
        finally:
            for way in ways.values():  # a measurement that failed leaves its cluster
                with suppress(ArtosError):
                    way.down()


def _beside(there: Layer, ray: RealRay, python: Path, *words: str) -> str:
    """What a user of Ray's cluster runs, who has an environment with Ray."""
    env = {
        **os.environ, "PYTHONPATH": there.variables["PYTHONPATH"], **ray.variables,
        "ARTOS_CLUSTERS": str(there.folder / "ray-clusters"), "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    done = ended([python, *words], 2 * PATIENCE, env=env, cwd=there.folder)
    return printed(" ".join(words), done)
