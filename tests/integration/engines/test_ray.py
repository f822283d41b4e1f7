"""A cluster on a real Ray: a group for each unit; groups and machines come and go."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers import PATIENCE, ROOT, SUPPORT

from evaluation.lab.packages import python_with
from evaluation.lab.raylets import PACKAGE, RealRay, real_ray

pytestmark = [pytest.mark.processes, pytest.mark.long]

NAME = "rays"


class OnRay:
    """The commands of a user of a Ray cluster."""

    def __init__(self, folder: Path, python: Path, ray: RealRay) -> None:
        self.folder, self._python, self.ray = folder, python, ray

    def tried(self, *words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        env = {
            **os.environ, "PYTHONPATH": str(ROOT), "RAY_ADDRESS": self.ray.address,
            "ARTOS_CLUSTERS": str(self.folder / "clusters"), "OMP_NUM_THREADS": "1",
        }  # fmt: skip
        return subprocess.run(
            [self._python, *words], env=env, cwd=cwd or self.folder, capture_output=True,
            text=True, timeout=PATIENCE, check=False,
        )  # fmt: skip

    def artos(self, *words: str, cwd: Path | None = None) -> Any:
        done = self.tried("-m", "deploy.cli", *words, "--json", cwd=cwd)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def groups(self) -> dict[str, str]:
        """The state of each group of ours, by name."""
        found = self.ray.groups()
        return {name: state for name, state in found.items() if name.startswith("artos:")}

    def until(self, condition: Callable[[], Any]) -> Any:
        end = time.monotonic() + PATIENCE
        while not (found := condition()):
            logs = sorted(self.folder.rglob("*.log"))
            told = "\n".join(f"-- {log}\n{log.read_text(errors='replace')[-3000:]}" for log in logs)
            assert time.monotonic() < end, told
            time.sleep(0.5)
        return found


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OnRay]:
    folder = tmp_path_factory.mktemp("ray")
    python = python_with(folder / "python", PACKAGE)
    with real_ray(python, folder / "ray.log") as ray:
        there = OnRay(folder, python, ray)
        try:
            yield there
        finally:  # a run outlives its head, so also the head of a test that failed
            there.tried("-m", "deploy.cli", "down", NAME)


def test_a_run_goes_on_while_its_groups_come_and_go(cluster: OnRay) -> None:
    for machine in ("m1", "m2"):
        cluster.ray.machine("add", machine)
    started = cluster.artos(
        "up",
        "--on",
        "ray",
        "--nodes",
        "2",
        "--slots",
        "2",
        "--name",
        NAME,
        "--wait",
        "180",
        "--head-options=node:__internal_head__=0.001",
    )
    assert not started["missing"], started
    towards = ("--head", started["address"], "--keys", started["keys"])
    assert set(cluster.groups().values()) == {"CREATED"}

    code = cluster.folder / "code"
    code.mkdir()
    for file in (SUPPORT / "counting.py", Path(__file__).with_name("endless.py")):
        shutil.copy(file, code)
    run = cluster.artos(
        "submit", "endless.py:workload", "--actors", "2", "--total-updates", "1000000", *towards,
        cwd=code,
    )["run"]  # fmt: skip

    def updates() -> int:
        return int((cluster.artos("status", run, *towards)["facts"] or {}).get("updates", 0))

    def goes_on() -> None:
        before = updates()
        cluster.until(lambda: updates() > before + 5)

    def names() -> set[str]:
        nodes = cluster.artos("status", *towards)["nodes"]
        return {node["name"] for node in nodes if node["alive"] and not node["leaves"]}

    goes_on()
    # A group is removed by someone else: its worker is replaced.
    cluster.ray.drop(f"artos:{NAME}:0")
    goes_on()
    cluster.until(lambda: names() == {f"{NAME}-0", f"{NAME}-1"})
    # A machine dies: Ray has one more, on which the worker comes back.
    cluster.ray.machine("add", "m3")
    cluster.ray.machine("remove", "m1")
    goes_on()
    cluster.until(lambda: len(names()) == 2)
    cluster.artos("stop", run, *towards)
    cluster.until(lambda: cluster.artos("status", run, *towards)["state"] == "done")
    cluster.artos("down", NAME)
    assert cluster.groups() == {}
    assert not (cluster.folder / "clusters" / NAME / "keys").exists()
