"""The image of ARTOS, built and run by a real podman: alone, and as the pods of our manifests."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from layers import needs_layer
from pods import Pods

from artos.buffer.shm_folder import PREFIX
from artos.runs.exit_status import ExitStatus
from artos.transport.keys import make_keys
from deploy.launchers.cluster import Cluster
from deploy.launchers.engines.kubernetes import Engine
from evaluation.lab.podman import Podman, podman

VARIABLE = "ARTOS_TEST_CONTAINER"
WHY_NOT = f"builds an image: ten to sixteen minutes on two busy cores; {VARIABLE}=1 runs it"
pytestmark = [
    pytest.mark.processes,
    pytest.mark.long,
    needs_layer,
    pytest.mark.timeout(2400),
    pytest.mark.skipif(not os.environ.get(VARIABLE), reason=WHY_NOT),
]

IMAGE = "artos"
AT_MOST = 1_500_000_000
RUN = ("run", "ppo", "--env", "CartPole-v1")
ENDLESS = ("--total-steps", "100000000")
ALONE = ("--rm", "--network", "none")
HEAD = ("--head", "tcp://lab-head:7700", "--keys", "/keys")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Podman]:
    with podman(tmp_path_factory.mktemp("podman")) as there:
        there.build("cpu", IMAGE)
        yield there


def test_it_is_small_and_has_all_tiers_but_as_root_only(built: Podman) -> None:
    (about,) = json.loads(built.run("image", "inspect", IMAGE))
    assert about["Size"] <= AT_MOST
    assert built.run("run", *ALONE, IMAGE, "--version").startswith("artos ")
    report = json.loads(built.run("run", *ALONE, IMAGE, "doctor", "--json"))
    assert report["shm"]["size"] < 70e6
    assert "ambient capabilities" in report["tiers"]["clone"]["reason"]
    as_root = ("--user", "root", "--privileged", "--shm-size", "1g")
    report = json.loads(built.run("run", *ALONE, *as_root, IMAGE, "doctor", "--json"))
    assert not report["missing"]


def test_a_run_in_little_shared_memory_is_stopped_and_saved(built: Podman) -> None:
    runs = built.folder / "runs"
    runs.mkdir()
    runs.chmod(0o777)
    built.run(
        "run", "--detach", "--name", "one", "--network", "none",
        f"--volume={runs}:/artos/runs", IMAGE, *RUN, *ENDLESS, "--run-dir", "/artos/runs/one",
    )  # fmt: skip
    progress = runs / "one" / "progress.csv"
    built.there.until(lambda: progress.exists() and progress.read_text().count("\n") > 2)
    built.run("stop", "--time", "60", "one")
    assert built.run("wait", "one").strip() == str(int(ExitStatus.INTERRUPTED))
    assert json.loads((runs / "one" / "summary.json").read_text())["outcome"] == "interrupted"
    assert (runs / "one" / "checkpoint" / "manifest.json").exists()
    assert progress.stat().st_uid != 0


def test_a_run_that_has_no_room_is_refused_with_what_to_do(built: Podman) -> None:
    too_large = (*RUN, "--actors", "8", "--set", "steps=200000")
    done = built.tried("run", *ALONE, IMAGE, *too_large)
    assert done.returncode == ExitStatus.REFUSED
    assert "--shm-size=2g" in done.stderr


def test_the_pods_of_a_cluster(built: Podman, tmp_path: Path) -> None:
    """They run as the manifests say: as nobody, with keys of theirs, in memory that is theirs."""
    lab = Cluster(name="lab", engine="kubernetes", folder=str(tmp_path / "lab"), least=1, most=1)
    make_keys(lab.keys)
    objects = {(each["kind"], each["metadata"]["name"]): each for each in Engine(lab)._objects()}
    pods = Pods(built, built.folder / "pods", objects)
    for unit in ("lab-head", "lab-worker"):
        pods.start(unit, IMAGE, {"POD": f"{unit}-0"})
    submitted = pods.desk(
        lab.keys, IMAGE, "submit", "ppo", "--env", "CartPole-v1", "--actors", "2",
        "--total-steps", "8192", "--wait", *HEAD,
    )  # fmt: skip
    built.run(*submitted)
    built.run("stop", "--time", "60", "lab-worker", "lab-head")
    for unit in ("lab-worker", "lab-head"):
        assert built.run("wait", unit).strip() == "0", built.run("logs", unit)
        assert PREFIX not in built.there.run("ls", f"{built.folder}/pods/{unit}/shm")
