"""A cluster on a real Slurm: units come, are preempted, cancelled, requeued, and leave nothing."""

from __future__ import annotations

import json
import re
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

from artos.system.usable_cpus import usable_cpus
from evaluation.lab.slurm import Slurm, slurm

pytestmark = [
    pytest.mark.processes, pytest.mark.long, pytest.mark.timeout(1800), needs_layer,
]  # fmt: skip

HERE = Path(__file__).parent
ARTOS = (sys.executable, "-m", "deploy.cli")
NAME = "lab"
HEAD_JOB, WORKER_JOB = f"artos:{NAME}:head", f"artos:{NAME}:worker"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    with slurm(tmp_path_factory.mktemp("slurm")) as there:
        yield there


@pytest.fixture
def cluster(engine: Slurm) -> Iterator[Slurm]:
    """The engine; what a test has left of a cluster, or of a node, is gone before the next one."""
    yield engine
    engine.tried(*ARTOS, "down", NAME)
    engine.mend()


def artos(cluster: Slurm, *words: str, cwd: Path | None = None) -> Any:
    """What a command prints as JSON."""
    return json.loads(cluster.run(*ARTOS, *words, "--json", cwd=cwd))


def towards(started: dict[str, Any]) -> tuple[str, ...]:
    return ("--head", started["address"], "--keys", started["keys"])


def up(cluster: Slurm, nodes: str, *words: str, slots: str = "2") -> dict[str, Any]:
    """With ``slots`` "", each worker has what Slurm gives its job: a node, if it is not told."""
    started: dict[str, Any] = artos(
        cluster, "up", "--on", "slurm", "--nodes", nodes, "--name", NAME,
        "--head-options=--partition=high", "--wait", "200", *words,
        *(("--slots", slots) if slots else ()),
    )  # fmt: skip
    return started


def endless(cluster: Slurm, started: dict[str, Any], actors: int = 4) -> Any:
    """Submit a run that lasts as long as a test needs."""
    code = cluster.folder / "code"
    code.mkdir(exist_ok=True)
    for file in (SUPPORT / "counting.py", HERE / "endless.py"):
        shutil.copy(file, code)
    return artos(
        cluster, "submit", "endless.py:workload", "--actors", str(actors), "--total-updates",
        "1000000", *towards(started), cwd=code,
    )  # fmt: skip


def workers(cluster: Slurm, *flags: str) -> list[dict[str, str]]:
    return cluster.jobs(f"--name={WORKER_JOB}", *flags)


def is_clean(cluster: Slurm) -> bool:
    """Whether nothing of ours is left; a job that took a node from us may still be there."""
    ours = cluster.jobs(f"--name={HEAD_JOB},{WORKER_JOB}")
    return not ours and not (cluster.folder / "clusters" / NAME / "keys").exists()


def test_a_run_goes_on_while_its_nodes_come_and_go(cluster: Slurm) -> None:
    """Preempted, cancelled, failed: each time another worker comes, and no row is lost."""
    started = up(cluster, "2")
    assert {node["name"] for node in started["nodes"]} == {f"{NAME}-0", f"{NAME}-1"}
    assert started["head"].startswith("tcp://")
    assert not started["missing"]
    assert up(cluster, "2")["joined"]

    submitted = endless(cluster, started)
    run, head = submitted["run"], Asked(started)

    def goes_on() -> None:
        """It makes updates, and all workers are there."""
        before = head.updates(run)
        cluster.until(lambda: head.updates(run) > before + 5)
        cluster.until(lambda: len(head.names()) == 2)

    def victim() -> dict[str, str]:
        """A worker on another node than the head's."""
        head_node = cluster.jobs(f"--name={HEAD_JOB}")[0]["node"]
        running = workers(cluster, "--states=RUNNING")
        return next(job for job in running if job["node"] != head_node)

    def unharmed() -> None:
        facts = head.run(run)["facts"]
        assert (facts["rows_lost"], facts["restarts"]) == (0, 0)

    def ends(job: dict[str, str]) -> None:
        cluster.until(lambda: job["id"] not in {each["id"] for each in workers(cluster)})

    goes_on()
    assert not shown(Path(started["keys"]), Path(started["folder"]) / "logs")
    # A job of a higher partition takes its node; there is a third one.
    preempted = victim()
    wrapped = ("--exclusive", "--output=/dev/null", "--wrap=sleep 20")
    cluster.run("sbatch", "-p", "high", "-w", preempted["node"], *wrapped)
    ends(preempted)
    goes_on()
    unharmed()
    cancelled = victim()
    cluster.run("scancel", cancelled["id"])
    ends(cancelled)
    goes_on()
    unharmed()
    failed = victim()
    cluster.run("scontrol", "update", f"nodename={failed['node']}", "state=down", "reason=test")
    ends(failed)
    cluster.tried("scontrol", "update", f"nodename={failed['node']}", "state=resume")
    goes_on()
    artos(cluster, "stop", run, *towards(started))
    ended = cluster.until(lambda: (view := head.run(run))["state"] == "done" and view)
    assert ended["outcome"] == "interrupted"
    assert not shown(Path(started["keys"]), Path(started["folder"]) / "logs")

    assert artos(cluster, "down", NAME)["name"] == NAME
    assert is_clean(cluster)
    folder = cluster.folder / "clusters" / NAME / "runs" / run
    assert (folder / "summary.json").exists()
    lines = map(json.loads, (folder / "journal.jsonl").read_text().splitlines())
    moves = [line["start"] for line in lines if "ready" in line and "to" in line]
    assert moves, "in mid-episode"
    assert {*moves} <= {"moved", "state"}


def test_the_head_is_requeued_and_its_runs_go_on(cluster: Slurm) -> None:
    started = up(cluster, "1", slots="")
    assert [node["slots"] for node in started["nodes"]] == [len(usable_cpus())]
    (job,) = workers(cluster)
    told = cluster.run("scontrol", "show", "job", job["id"])
    assert "OverSubscribe=NO" in told, "a node of its own"
    run, asked = endless(cluster, started, actors=1)["run"], Asked(started)
    cluster.until(lambda: asked.updates(run) > 5)
    for restarts, its_node_fails in enumerate((False, True), 1):
        (head,) = cluster.jobs(f"--name={HEAD_JOB}")
        if its_node_fails:
            cluster.fail(head["node"])
        else:
            cluster.run("scontrol", "requeue", head["id"])
        cluster.until(lambda: cluster.jobs(f"--name={HEAD_JOB}")[0]["state"] == "PENDING")
        # By Slurm's rules it waits for two minutes now, which a test need not.
        at_once = ("scontrol", "update", f"jobid={head['id']}", "starttime=now")

        def is_on(restarts: int = restarts, at_once: tuple[str, ...] = at_once) -> bool:
            cluster.tried(*at_once)  # it may set that time after it has shown the job as waiting
            now = asked.run(run)
            return now.get("restarts") == restarts and now["state"] == "running"

        cluster.until(is_on)
        before = asked.updates(run)
        cluster.until(lambda before=before: asked.updates(run) > before + 5)
    assert cluster.jobs(f"--name={HEAD_JOB}")[0]["node"] != head["node"]
    # Another one, if Slurm preempted the first one for the head.
    assert len(asked.names()) == 1
    artos(cluster, "down", NAME)
    assert is_clean(cluster)
    summary = cluster.folder / "clusters" / NAME / "runs" / run / "summary.json"
    assert json.loads(summary.read_text())["outcome"] == "interrupted"


def test_workers_are_as_many_as_runs_can_use(cluster: Slurm) -> None:
    """One node of two slots, then two for four actors, then one again, a minute after there are
    two: while the run goes on."""
    in_memory = within(cluster)
    started = up(cluster, "1..2")
    up_again = (*ARTOS, "up", "--on", "slurm", "--nodes", "1..2", "--name", NAME, "--slots", "2")
    printed = cluster.run(*up_again, "--head-options=--partition=high", "--env")
    variables = [line.removeprefix("export ") for line in printed.splitlines()]
    assert "lab-0" in cluster.run("env", *variables, *ARTOS, "status")
    submitted = endless(cluster, started)
    run, head = submitted["run"], Asked(started)
    cluster.until(lambda: len(head.names()) == 2)
    cluster.until(lambda: head.updates(run) > 5)
    assert len(within(cluster) - in_memory) > 2, "the head's and each worker's"
    artos(cluster, "scale", run, "2", *towards(started))
    cluster.until(lambda: len(workers(cluster)) == 1)
    cluster.until(lambda: len(head.names()) == 1)
    before = head.updates(run)
    cluster.until(lambda: head.updates(run) > before + 5)
    assert head.run(run)["facts"]["restarts"] == 0
    artos(cluster, "stop", run, *towards(started))
    # A cluster of that name from another desk, is none of this one's business.
    mine, other = workers(cluster), ("env", f"ARTOS_CLUSTERS={cluster.folder / 'other'}", *ARTOS)
    asked = (*up_again[len(ARTOS) :], "--head-options=--partition=high", "--wait", "1", "--json")
    theirs = json.loads(cluster.run(*other, *asked))
    assert not theirs["joined"]
    assert len(cluster.jobs(f"--name={HEAD_JOB}")) == 2
    cluster.run(*other, "down", NAME)
    cluster.until(lambda: workers(cluster) == mine)
    assert len(cluster.jobs(f"--name={HEAD_JOB}")) == 1
    assert len(head.names()) == 1
    artos(cluster, "down", NAME)
    assert is_clean(cluster)
    assert within(cluster) <= in_memory


def test_a_worker_leaves_before_its_time_limit(cluster: Slurm) -> None:
    """Slurm's shortest limit is a minute; with a notice of 45 s it hears of it after 15."""
    log = cluster.folder / "clusters" / NAME / "logs" / "worker-0.log"
    before = len(log.read_text()) if log.exists() else 0
    started = up(
        cluster, "1", "--worker-options=--time=1 --cpus-per-task=1", "--notice=45", slots=""
    )
    assert [node["slots"] for node in started["nodes"]] == [1]
    head = Asked(started)
    cluster.until(lambda: any(0 < node["seconds_left"] < 60 for node in head.nodes()))
    told = f"{NAME}-0 leaves: its worker was told to stop"  # by SIGUSR1
    cluster.until(lambda: told in log.read_text()[before:])
    cluster.until(lambda: len(head.names()) == 1)  # the next one
    assert "DUE TO TIME LIMIT" not in log.read_text()[before:]
    artos(cluster, "down", NAME)
    assert is_clean(cluster)


def test_what_cannot_be_is_told_and_leaves_nothing(cluster: Slurm) -> None:
    wrong = ("--on", "slurm", "--nodes", "1", "--name", NAME)
    refused = cluster.tried(*ARTOS, "up", *wrong, "--head-options=--partition=nowhere")
    assert refused.returncode == 1
    assert "slurm did not start it" in refused.stderr
    assert "nowhere" in refused.stderr
    assert "partition low kills a preempted job 30 s after telling it" in refused.stderr
    assert is_clean(cluster)
    assert not (cluster.folder / "clusters" / NAME / "cluster.json").exists()
    # More than there is: the head is there, and what is missing is said, with Slurm's words.
    started = up(cluster, "7", "--wait", "90")
    assert started["head"]
    (missing,) = started["missing"]
    assert re.match(r"\d of 7 workers \(since ", missing)
    assert "Resources" in missing
    other = cluster.tried(*ARTOS, "up", *wrong)
    assert other.returncode == 2
    assert "least is 7, not 1" in other.stderr
    artos(cluster, "down", NAME)
    assert is_clean(cluster)
    # Workers that Slurm does not take, or that it would never start: it says why.
    for options, why in (
        ("--cpus-per-task=20", "Requested node configuration is not available"),
        ("--partition=brief --time=10", "PartitionTimeLimit: its partition gives no job that much"),
    ):
        asked = ("1", f"--worker-options={options}", "--wait", "1")

        def is_told(asked: tuple[str, ...] = asked, why: str = why) -> bool:
            missing = up(cluster, *asked, slots="")["missing"]
            return any(
                each.startswith("1 of 1 workers (since ") and why in each for each in missing
            )

        cluster.until(is_told)
        artos(cluster, "down", NAME)
    assert is_clean(cluster)
    # Workers that cannot live: what they say last is what is missing.
    python, faulty = cluster.folder / "python", 'echo "artos: no room here" >&2; exit 1'
    python.write_text(
        f'#!/bin/sh\n[ -z "$SLURM_ARRAY_TASK_ID" ] || {{ {faulty}; }}\nexec {sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    (missing,) = up(cluster, "1", "--python", str(python), "--wait", "60")["missing"]
    assert re.fullmatch(r"1 of 1 workers \(since .*\): no room here", missing)
    artos(cluster, "down", NAME)
