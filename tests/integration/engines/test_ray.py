"""A cluster on a real Ray: a group for each unit; groups and machines come and go."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from asked import Asked
from helpers import PATIENCE, ROOT, SUPPORT
from seen_keys import shown
from segments import under

from artos.system.shm import shm_root
from evaluation.lab.packages import python_with
from evaluation.lab.raylets import (
    PACKAGE,
    AutoscaledRay,
    RealRay,
    autoscaled_ray,
    real_ray,
)
from workers.checkpoint.tiers import probe

pytestmark = [pytest.mark.processes, pytest.mark.long, pytest.mark.timeout(1800)]

NAME = "rays"


class OnRay:
    """The commands of a user of a Ray cluster."""

    def __init__(self, folder: Path, python: Path, ray: RealRay | AutoscaledRay) -> None:
        self.folder, self._python, self._ray = folder, python, ray

    def tried(self, *words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        env = {
            **os.environ, "PYTHONPATH": str(ROOT), **self._ray.variables,
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

    def beside(self, folder: Path) -> OnRay:
        """Another user, whose clusters are in another folder."""
        folder.mkdir()
        return OnRay(folder, self._python, self._ray)

    def submit(self, actors: int, *towards: str) -> str:
        """Submit a run that lasts as long as a test needs; returns its name."""
        code = self.folder / "code"
        code.mkdir(exist_ok=True)
        for file in (SUPPORT / "counting.py", Path(__file__).with_name("endless.py")):
            shutil.copy(file, code)
        return str(
            self.artos(
                "submit", "endless.py:workload", "--actors", str(actors), "--total-updates",
                "1000000", *towards, cwd=code,
            )["run"]
        )  # fmt: skip

    def until(self, condition: Callable[[], Any]) -> Any:
        end = time.monotonic() + PATIENCE
        while not (found := condition()):
            logs = sorted(self.folder.rglob("*.log"))
            told = "\n".join(f"-- {log}\n{log.read_text(errors='replace')[-3000:]}" for log in logs)
            assert time.monotonic() < end, told
            time.sleep(0.5)
        return found


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return python_with(tmp_path_factory.mktemp("with-ray") / "python", PACKAGE)


def test_a_run_goes_on_while_its_groups_come_and_go(tmp_path: Path, python: Path) -> None:
    with real_ray(python, tmp_path / "ray.log") as ray:
        cluster = OnRay(tmp_path, python, ray)
        try:
            _goes_on(cluster, ray)
        finally:  # a run outlives its head, so also the head of a test that failed
            cluster.tried("-m", "deploy.cli", "down", NAME)


def _goes_on(cluster: OnRay, ray: RealRay) -> None:
    def groups() -> dict[str, str]:
        found = ray.groups()
        return {name: state for name, state in found.items() if name.startswith("artos:")}

    def goes_on() -> None:
        before = head.updates(run)
        cluster.until(lambda: head.updates(run) > before + 5)

    def unharmed() -> bool:
        facts = head.run(run)["facts"]
        return (facts["rows_lost"], facts["restarts"]) == (0, 0)

    def settled() -> bool:
        """Whether two workers are there, and none that was told to leave is still at it."""
        return len(alive := head.nodes()) == 2 and not any(each["leaves"] for each in alive)

    # Those that are there at the end: what was on one that died is gone with it.
    memories = shm_root(), *(Path(ray._process.args[-1]) / machine for machine in ("m3", "m4"))
    before = under(*memories)
    for machine in ("m1", "m2"):
        ray.machine("add", machine)
    started = cluster.artos(
        "up", "--on", "ray", "--nodes", "2", "--slots", "2", "--name", NAME, "--wait", "180",
        "--head-options=node:__internal_head__=0.001",
    )  # fmt: skip
    assert not started["missing"], started
    head, towards = Asked(started), ("--head", started["address"], "--keys", started["keys"])
    assert set(groups().values()) == {"CREATED"}
    run = cluster.submit(2, *towards)
    goes_on()
    # Another user's cluster of that name has no room, and is none of this one's business.
    mine, other = groups(), cluster.beside(cluster.folder / "other")
    theirs = other.artos(
        "up", "--on", "ray", "--nodes", "1", "--slots", "2", "--name", NAME, "--wait", "2",
        "--head-options=CPU=2",
    )  # fmt: skip
    assert "room for CPU=2" in theirs["missing"][0], theirs
    assert not shown(Path(started["keys"]), cluster.folder / "clusters" / NAME / "logs")
    assert len(groups()) > len(mine)
    other.artos("down", NAME)
    assert groups() == mine
    goes_on()
    # A group is removed by someone else: its worker is replaced, once its actor has moved.
    ray.drop(next(name for name in groups() if name.endswith(":0")))
    cluster.until(lambda: f"{NAME}-0" not in head.names())
    cluster.until(settled)
    goes_on()
    assert unharmed()
    # Ray drains a machine: its worker leaves before that ends, and its actor has moved.
    there = head.names()
    ray.machine("add", "m3")
    ray.machine("drain", "m2")
    cluster.until(lambda: head.names() != there)
    (left,) = there - head.names()
    (log,) = cluster.folder.glob(f"clusters/{NAME}/logs/worker-{left[-1]}.log")
    cluster.until(lambda: "s for leaving: its machine is taken back" in log.read_text())
    cluster.until(settled)
    ray.machine("remove", "m2")
    goes_on()
    assert unharmed()
    assert len(head.names()) == 2, "nobody was on the machine that was drained"
    # A machine dies: Ray has one more, on which the worker comes back.
    ray.machine("add", "m4")
    ray.machine("remove", "m1")
    goes_on()
    cluster.until(settled)
    assert len(under(*memories) - before) > 1
    cluster.artos("stop", run, *towards)
    cluster.until(lambda: head.run(run)["state"] == "done")
    assert not shown(Path(started["keys"]), cluster.folder / "clusters" / NAME / "logs")
    journal = cluster.folder / "clusters" / NAME / "runs" / run / "journal.jsonl"
    lines = map(json.loads, journal.read_text().splitlines())
    moves = [line["start"] for line in lines if "ready" in line and "to" in line]
    by_image = probe()["clone"].available
    assert ("moved" if by_image else "state") in moves, "in mid-episode"
    cluster.artos("down", NAME)
    assert groups() == {}
    assert under(*memories) <= before
    assert not (cluster.folder / "clusters" / NAME / "keys").exists()


def test_the_autoscaler_brings_a_machine_for_a_run_and_takes_it_back(
    tmp_path: Path, python: Path
) -> None:
    with autoscaled_ray(python, tmp_path) as ray:
        cluster = OnRay(tmp_path, python, ray)
        cluster.until(lambda: ray.machines() == 1)  # one that came too early goes
        try:
            started = cluster.artos(
                "up", "--on", "ray", "--nodes", "0..2", "--slots", "2", "--name", NAME
            )
            head = Asked(started)
            towards = ("--head", started["address"], "--keys", started["keys"])
            assert head.names() == set()
            run = cluster.submit(2, *towards)
            cluster.until(lambda: head.updates(run) > 5)
            assert head.names() == {f"{NAME}-0"}
            cluster.until(lambda: ray.machines() == 2)  # Ray may have brought one too many
            cluster.artos("stop", run, *towards)
            cluster.until(lambda: head.names() == set())  # a minute after the last run
            cluster.until(lambda: ray.machines() == 1)
        finally:
            cluster.tried("-m", "deploy.cli", "down", NAME)
