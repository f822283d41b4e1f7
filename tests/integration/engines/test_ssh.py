"""A cluster on hosts that a real sshd serves."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from asked import Asked
from helpers import SUPPORT
from layers import needs_layer
from seen_keys import shown
from segments import within

from artos.version import VERSION
from evaluation.lab import sshd
from evaluation.lab.layer import Layer, layer

pytestmark = [pytest.mark.processes, pytest.mark.long, needs_layer]

ARTOS = (sys.executable, "-m", "deploy.cli")
NAME, PORT = "desks", 16922


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Layer]:
    folder = tmp_path_factory.mktemp("ssh")
    with layer(folder, *sshd.PACKAGES, provides=["sshd"]) as there:
        sshd.serve(there, PORT)
        yield there


def artos(there: Layer, *words: str, cwd: Path | None = None, desk: str = "clusters") -> Any:
    env = ("env", f"ARTOS_CLUSTERS={there.folder / desk}")
    return json.loads(there.run(*env, *ARTOS, *words, "--json", cwd=cwd))


def up(there: Layer, hosts: str, nodes: str, *words: str, desk: str = "clusters") -> dict[str, Any]:
    file = there.folder / "hosts"
    file.write_text(hosts)
    started: dict[str, Any] = artos(
        there, "up", "--on", "ssh", "--nodes", nodes, "--name", NAME, "--hosts", str(file),
        f"--worker-options={' '.join(sshd.flags(there))}", "--wait", "200", *words,
        desk=desk,
    )  # fmt: skip
    return started


def test_workers_run_on_hosts_with_a_key_of_theirs_and_leave_nothing(hosts: Layer) -> None:
    started = up(hosts, "desk1  # mine\n\ndesk2\n", "2", "--slots", "1")
    towards = ("--head", started["address"], "--keys", started["keys"])
    assert {node["name"] for node in started["nodes"]} == {f"{NAME}-0", f"{NAME}-1"}
    (name,) = hosts.run("ls", "/root/.artos/nodes").split()
    assert name.startswith(f"{NAME}-"), "and of which cluster of that name, by its keys"
    there = f"/root/.artos/nodes/{name}"
    listed = hosts.run("find", there, "-name", "*.key_secret").split()
    assert {*listed} == {f"{there}/{index}/keys/nodes/any.key_secret" for index in range(2)}

    code = hosts.folder / "code"
    code.mkdir()
    shutil.copy(SUPPORT / "counting.py", code)
    summary = artos(
        hosts, "submit", "counting.py:workload", "--actors", "2", "--total-updates", "20",
        "--wait", *towards, cwd=code,
    )  # fmt: skip
    assert summary["outcome"] == "done"
    assert not shown(Path(started["keys"]), Path(started["folder"]) / "logs")

    # A worker that was killed comes back under its name; so does the head, at its port.
    pid = hosts.run("cat", f"{there}/0/unit-0.pid").split()[0]
    hosts.run("kill", "-KILL", pid)
    hosts.until(lambda: pid not in hosts.tried("cat", f"{there}/0/unit-0.pid").stdout)
    hosts.run("pkill", "-KILL", "-f", "deploy.cli head")
    hosts.until(lambda: len(Asked(started).nodes()) == 2)
    shutil.copy(Path(__file__).with_name("endless.py"), code)
    endless = ("endless.py:workload", "--actors", "2", "--total-updates", "1000000")
    run = artos(hosts, "submit", *endless, *towards, cwd=code)["run"]
    hosts.until(lambda: Asked(started).updates(run) > 5)
    assert len(within(hosts)) > 2, "the head's and each worker's"
    artos(hosts, "down", NAME)
    assert within(hosts) == set()
    assert hosts.tried("pgrep", "-f", "deploy.cli worker").stdout == ""
    assert hosts.tried("pgrep", "-f", "deploy.cli head").stdout == ""
    assert hosts.tried("ls", there).returncode
    assert not (hosts.folder / "clusters" / NAME / "keys").exists()
    assert (hosts.folder / "clusters" / NAME / "logs" / "worker-0.log").read_text()


def test_clusters_of_one_name_from_two_desks_do_not_meet(hosts: Layer) -> None:
    """Neither takes the other one's worker for its own, nor ends it, nor removes its keys."""
    first = up(hosts, "desk1\n", "1", "--slots", "1")
    second = up(hosts, "desk1\n", "1", "--slots", "1", desk="other")
    assert (first["missing"], second["missing"]) == ([], [])
    assert first["head"] != second["head"]
    artos(hosts, "down", NAME, desk="other")
    status = artos(hosts, "status", "--head", first["address"], "--keys", first["keys"])
    assert {n["name"]: n["alive"] for n in status["nodes"]}[f"{NAME}-0"]
    assert len(hosts.run("ls", "/root/.artos/nodes").split()) == 1
    artos(hosts, "down", NAME)
    assert hosts.run("ls", "/root/.artos/nodes") == ""


def test_a_host_of_another_version_is_told_and_the_others_work(hosts: Layer) -> None:
    older = hosts.folder / "older"
    (older / "artos").mkdir(parents=True)
    (older / "artos" / "__init__.py").touch()
    (older / "artos" / "version.py").write_text('VERSION = "0.0.1"\n')
    python = hosts.folder / "python"
    where = f'case "$SSH_CONNECTION" in *" {PORT + 1}") PYTHONPATH={older}; esac'
    python.write_text(f'#!/bin/sh\n{where}\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    started = up(
        hosts, "desk1\ndesk2\n", "2", "--slots", "1", "--python", str(python), "--wait", "40"
    )
    assert [node["name"] for node in started["nodes"]] == [f"{NAME}-0"]
    (missing,) = started["missing"]
    assert missing.startswith("1 of 2 workers (since ")
    assert missing.endswith(f": desk2: it has ARTOS 0.0.1, not {VERSION}")
    artos(hosts, "down", NAME)


def test_a_host_that_cannot_be_reached_is_told_and_the_others_work(hosts: Layer) -> None:
    started = up(hosts, "desk1\ndesk3\n", "2", "--slots", "1", "--wait", "100")
    assert [node["name"] for node in started["nodes"]] == [f"{NAME}-0"]
    (missing,) = started["missing"]
    assert missing.startswith("1 of 2 workers (since ")
    assert "Connection refused" in missing
    # It cannot be told to end, either, which is said; the others have ended.
    ended = hosts.tried(*ARTOS, "down", NAME)
    assert "desk3" in ended.stderr
    assert hosts.tried("pgrep", "-f", "deploy.cli").stdout == ""
