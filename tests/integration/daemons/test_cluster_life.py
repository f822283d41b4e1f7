"""Whole clusters on the loopback, by the commands a user types: work, deaths, goodbyes."""

from __future__ import annotations

import json
import shutil
import signal
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from disks import needs_mount, small_disk
from helpers import PATIENCE
from real_cluster import Cluster, Command, assert_each_row_once

from artos.clock import Deadline
from artos.pool.view import read_pool
from artos.runs.checkpoint import MANIFEST, read_manifest

pytestmark = pytest.mark.processes

RUN = "counting-workload-seed1-1"
ROWS = 4800
RUNS = Path(__file__).parents[1] / "runs"
WORKLOAD = "counting.py:workload"
COUNTING = (WORKLOAD, "--total-steps", ROWS)
LITTLE = 30.0
"""Seconds; half of those after which a head kills a run that does not end."""
LONG = (WORKLOAD, "--total-steps", 38_400)


def under_way(
    cluster: Cluster, code: Path, *workers: str, submission: tuple[object, ...] = COUNTING
) -> Command:
    """A run that somebody waits for, in the middle of its work on these workers."""
    for worker in workers:
        cluster.start_worker(worker)
    cluster.alive(*workers)
    submit = cluster.submit(*submission, "--json", cwd=code)
    cluster.until_under_way(RUN)
    return submit


def finished(cluster: Cluster, submit: Command) -> dict[str, Any]:
    """Its summary; every row was learned from once, and nothing but daemons is left."""
    cluster.hurry()
    assert submit.wait() == 0, cluster.story()
    summary: dict[str, Any] = json.loads(submit.out)
    assert (summary["outcome"], summary["steps"]) == ("done", ROWS)
    assert_each_row_once(cluster.runs / RUN, ROWS, 2)
    cluster.until(lambda: cluster.left() == [])
    return summary


@pytest.mark.long
def test_a_run_of_the_users_code_on_two_workers(cluster: Cluster, code: Path) -> None:
    submit = under_way(cluster, code, "w1", "w2")
    nodes, runs = cluster.status()
    assert {name: node["actors"] for name, node in nodes.items()} == {"w1": 1, "w2": 1}
    assert (runs[RUN]["state"], runs[RUN]["waits_for"]) == ("running", "")
    for actor in (0, 1):
        said = cluster.ask("logs", RUN, "--actor", actor)
        assert "counting from seed" in said["text"], "from the node where it is"
    summary = finished(cluster, submit)
    assert (summary["rows_lost"], set(summary["nodes"])) == (0, {"w1", "w2"})
    nodes, runs = cluster.status()
    assert runs[RUN]["state"] == "done"
    assert runs[RUN]["facts"]["steps"] == ROWS, "its last news are of its end"
    assert "counting from seed" in cluster.ask("logs", RUN, "--actor", 1)["text"]
    logs = cluster.runs / RUN / "logs"
    found = {path.relative_to(logs).as_posix() for path in logs.rglob("*.log")}
    assert {"learner.log", "run.log", "w1/executor.log", "w1/agent.log", "w2/executor.log"} <= found
    actors = [path.read_text() for path in logs.glob("w?/actor-?.log")]
    assert len(actors) == 2
    assert all("counting from seed" in text for text in actors)
    assert all(node["actors"] == 0 for node in nodes.values())
    for worker in ("w1", "w2"):
        assert [*(cluster.folder / worker / "artos" / "code").glob("*/counting.py")]
    assert cluster.stop() == {"w1": 0, "w2": 0, "head": 0}


@pytest.mark.long
def test_without_a_worker_a_run_waits_and_says_for_what(cluster: Cluster, code: Path) -> None:
    submit = cluster.submit(*COUNTING, "--json", cwd=code)
    run = cluster.until(lambda: cluster.status()[1].get(RUN))
    assert "artos worker" in run["waits_for"]
    cluster.start_worker("w1")
    finished(cluster, submit)
    assert cluster.stop() == {"w1": 0, "head": 0}


@pytest.mark.long
def test_a_run_goes_where_its_label_is(cluster: Cluster, code: Path) -> None:
    cluster.start_worker("w1", "--label", "room=a")
    cluster.alive("w1")
    submit = cluster.submit(*COUNTING, "--where", "avx512", "--json", cwd=code)
    cluster.until(lambda: "avx512" in cluster.status()[1].get(RUN, {}).get("waits_for", ""))
    cluster.start_worker("w2", "--label", "avx512", "--label", "room=b")
    assert set(finished(cluster, submit)["nodes"]) == {"w2"}
    nodes, _ = cluster.status()
    assert [*nodes["w2"]["labels"]] == ["avx512", "room=b"]
    assert cluster.stop() == {"w1": 0, "w2": 0, "head": 0}


# -- workers and heads that go ---------------------------------------------------------------------


@pytest.mark.long
def test_a_worker_that_is_told_to_stop_says_goodbye(cluster: Cluster, code: Path) -> None:
    """Its rows are sent first; the run goes on elsewhere and loses nothing."""
    submit = under_way(cluster, code, "w1", "w2")
    cluster.workers["w1"].signal(signal.SIGTERM)
    assert cluster.workers["w1"].wait() == 0, cluster.story()
    assert not cluster.status()[0]["w1"]["alive"]
    assert finished(cluster, submit)["rows_lost"] == 0
    assert cluster.stop() == {"w2": 0, "head": 0}


@pytest.mark.long
def test_a_worker_daemon_is_killed(cluster: Cluster, code: Path) -> None:
    """Its executor ends, its actors go elsewhere; started again it is welcome."""
    submit = under_way(cluster, code, "w1", "w2")
    cluster.workers["w2"].kill()
    cluster.alive("w1")
    cluster.start_worker("w2")
    cluster.alive("w1", "w2")
    finished(cluster, submit)
    assert cluster.stop() == {"w1": 0, "w2": 0, "head": 0}


@pytest.mark.long
def test_a_worker_daemon_that_was_killed_is_gone_long_before_the_deadline(tmp_path: Path) -> None:
    with closing(Cluster(tmp_path, deadline=100 * PATIENCE)) as cluster:
        cluster.start_worker("w1")
        cluster.start_worker("w2")
        cluster.alive("w1", "w2")
        cluster.workers["w2"].kill()
        cluster.alive("w1")
        cluster.start_worker("w2")
        cluster.alive("w1", "w2")
        assert cluster.stop() == {"w1": 0, "w2": 0, "head": 0}


@pytest.mark.long
def test_a_daemon_started_right_after_the_last_was_killed(cluster: Cluster, code: Path) -> None:
    """The new one knows that the old one is dead, so its name is not taken."""
    submit = under_way(cluster, code, "w1")
    cluster.workers["w1"].kill()
    cluster.start_worker("w1")
    finished(cluster, submit)
    assert cluster.stop() == {"w1": 0, "head": 0}


@pytest.mark.long
def test_a_worker_that_was_cut_off_comes_back(cluster: Cluster, code: Path) -> None:
    """Its actors live elsewhere by then; what it still has of them is closed."""
    submit = under_way(cluster, code, "w1", "w2")
    cluster.workers["w1"].signal(signal.SIGSTOP)
    cluster.alive("w2")
    cluster.workers["w1"].signal(signal.SIGCONT)
    cluster.alive("w1", "w2")
    cluster.until(lambda: cluster.cpus("w1") == {})
    finished(cluster, submit)
    assert cluster.stop() == {"w1": 0, "w2": 0, "head": 0}


def test_a_name_is_taken_while_its_worker_lives(cluster: Cluster) -> None:
    cluster.start_worker("w1")
    cluster.alive("w1")
    here = cluster.start("here", "worker", *cluster.towards_head, "--name", "w1",
                         XDG_CACHE_HOME=str(cluster.folder / "w1"))  # fmt: skip
    elsewhere = cluster.start("elsewhere", "worker", *cluster.towards_head, "--name", "w1",
                              XDG_CACHE_HOME=str(cluster.folder / "another"))  # fmt: skip
    assert (here.wait(), elsewhere.wait()) == (2, 2)
    assert "already runs on this machine" in here.said
    assert "a worker called w1 is alive (heard" in elsewhere.said
    assert cluster.stop() == {"w1": 0, "head": 0}


@pytest.mark.long
def test_the_head_is_killed_and_started_again(cluster: Cluster, code: Path) -> None:
    """Workers and runs live on, are found again, and the one who waits hears of the end."""
    submit = under_way(cluster, code, "w1")
    (run,) = cluster.processes("head.run")
    cluster.head.kill()
    cluster.start_head()
    cluster.alive("w1")
    assert cluster.processes("head.run") == [run]
    assert f"run {RUN} goes on" in cluster.head.said
    summary = finished(cluster, submit)
    assert (summary["rows_lost"], summary["restarts"]) == (0, 0)
    assert cluster.stop() == {"w1": 0, "head": 0}


@pytest.mark.long
def test_a_run_that_ended_while_the_head_was_away(cluster: Cluster, code: Path) -> None:
    submit = under_way(cluster, code, "w1")
    cluster.head.kill()
    cluster.hurry()
    cluster.until(lambda: not cluster.processes("head.run"))
    cluster.start_head()
    assert submit.wait() == 0, cluster.story()
    run = cluster.status()[1][RUN]
    assert (run["outcome"], run["restarts"]) == ("done", 0)
    cluster.until(lambda: cluster.left() == [])
    assert cluster.stop() == {"w1": 0, "head": 0}


@pytest.mark.long
def test_a_run_process_is_killed_and_goes_on_from_its_checkpoint(
    cluster: Cluster, code: Path
) -> None:
    submit = under_way(cluster, code, "w1")
    (run,) = cluster.processes("head.run")
    run.kill()
    cluster.hurry()
    assert submit.wait() == 0, cluster.story()
    assert json.loads(submit.out)["steps"] == ROWS
    assert cluster.status()[1][RUN]["restarts"] == 1
    cluster.until(lambda: cluster.left() == [])
    assert cluster.stop() == {"w1": 0, "head": 0}


@pytest.mark.long
@pytest.mark.parametrize("how", ["killed", pytest.param("stopped", marks=pytest.mark.exhaustive)])
def test_a_run_goes_on_with_its_replay_buffer_and_its_bill(
    cluster: Cluster, code: Path, how: str
) -> None:
    shutil.copy(RUNS / "replaying.py", code)
    shutil.copy(Path(__file__).with_name("paced_pole.py"), code)
    cluster.start_worker("w1")
    cluster.alive("w1")
    name = "replaying-paced_pole-pole-seed1-1"
    options = ("--total-steps", 8_000, "--set", "capacity=8000", "--json")
    submit = cluster.submit(
        "replaying.py:replayed", *options, "--set", "env=paced_pole:pole", cwd=code
    )
    checkpoint = cluster.runs / name / "checkpoint"

    def billed() -> bool:
        if not (checkpoint / MANIFEST).exists():
            return False
        saved = read_manifest(checkpoint)
        return saved.steps > 2_000 and saved.usage["cpu_seconds_held"] > 0

    cluster.until(billed)
    if how == "killed":
        (run,) = cluster.processes("head.run")
        run.kill()
    else:
        cluster.ask("stop", name)
        assert submit.wait() == 130
        assert read_manifest(checkpoint).rows_file is not None
        submit = cluster.submit("--resume", name, "--json", cwd=code)
    before = read_manifest(checkpoint)
    cluster.hurry()
    assert submit.wait() == 0, cluster.story()
    summary = json.loads(submit.out)
    assert (summary["outcome"], summary["steps"]) == ("done", 8_000)
    assert not any("replay buffer" in each for each in summary["not_restored"])
    # Rows of the first policies are drawn at once, with those of the newest.
    assert summary["lag_max"] > summary["updates"] - before.updates
    assert summary["usage"]["cpu_seconds_held"] > before.usage["cpu_seconds_held"] > 0
    assert read_manifest(checkpoint).rows_file is None, "rows of then are of no use any more"
    cluster.until(lambda: cluster.left() == [])
    assert cluster.stop() == {"w1": 0, "head": 0}


@pytest.mark.long
def test_what_a_run_that_begins_again_needs_is_killed_and_it_is_not_refused(
    cluster: Cluster, code: Path
) -> None:
    submit = under_way(cluster, code, "w1")
    (run,) = cluster.processes("head.run")
    run.kill()
    (again,) = cluster.until(lambda: [p for p in cluster.processes("head.run") if p != run])

    deadline = Deadline(PATIENCE)
    while again in cluster.processes("head.run"):
        assert not deadline.passed, cluster.story()
        with suppress(psutil.NoSuchProcess):  # what imports the workload, and what registers it
            for child in again.children(recursive=True):
                child.kill()
    cluster.hurry()
    assert submit.wait() == 0, cluster.story()
    assert json.loads(submit.out)["steps"] == ROWS
    assert cluster.status()[1][RUN]["restarts"] >= 2
    assert "was killed (SIGKILL)" in cluster.head.said
    cluster.until(lambda: cluster.left() == [])
    assert cluster.stop() == {"w1": 0, "head": 0}


@pytest.mark.long
def test_an_executor_is_killed_and_opened_again(cluster: Cluster, code: Path) -> None:
    submit = under_way(cluster, code, "w1")
    (site,) = cluster.processes("workers.executor")
    site.kill()
    finished(cluster, submit)
    assert "killed by signal 9" in cluster.head.said
    assert cluster.stop() == {"w1": 0, "head": 0}


@pytest.mark.long
def test_a_drained_node_is_left_by_all_and_its_worker_ends(cluster: Cluster, code: Path) -> None:
    submit = under_way(cluster, code, "w1", "w2")
    assert cluster.ask("drain", "w1") == {"node": "w1", "actors": 1}
    cluster.until(lambda: cluster.status()[1][RUN]["facts"]["nodes"].get("w2") == [0, 1])
    assert cluster.workers["w1"].wait() == 0, cluster.story()
    assert "w1 leaves: it is drained" in cluster.workers["w1"].said
    assert finished(cluster, submit)["rows_lost"] == 0
    node = cluster.status()[0]["w1"]
    assert (node["alive"], node["leaves"]) == (False, "it is drained")
    cluster.start_worker("w1")  # whoever wants it back
    cluster.alive("w1", "w2")
    assert cluster.status()[0]["w1"]["leaves"] == ""
    assert cluster.stop() == {"w1": 0, "w2": 0, "head": 0}


@pytest.mark.long
def test_a_worker_leaves_before_its_time_is_over(cluster: Cluster, tmp_path: Path) -> None:
    joined = tmp_path / "joined"
    worker = cluster.start_worker("w1", "--lifetime", 13, "--stop-seconds", 1, "--joined", joined)
    cluster.until(joined.exists)
    left = cluster.until(lambda: cluster.status()[0].get("w1", {}).get("seconds_left"))
    assert 0 < left <= 12
    assert worker.wait() == 0, cluster.story()
    assert not joined.exists()
    assert "w1 leaves: its time on this machine is over" in worker.said
    assert cluster.status()[0]["w1"]["leaves"] == "its time on this machine is over"
    refused = cluster.start_worker("w2", "--lifetime", 4, "--stop-seconds", 5)
    assert refused.wait() == 2
    assert "it must be longer than --stop-seconds 5" in refused.said


def test_a_head_ends_soon_while_runs_wait_and_register(cluster: Cluster, code: Path) -> None:
    runs = [cluster.ask("submit", *COUNTING, "--seed", seed, cwd=code)["run"] for seed in (1, 2)]
    cluster.until(lambda: cluster.processes("head.run"))
    cluster.head.signal(signal.SIGINT)
    assert cluster.head.wait(LITTLE) == 0, cluster.story()
    cluster.until(lambda: cluster.left() == [])
    cluster.start_head()
    first, second = (cluster.status()[1][run] for run in runs)
    assert first["outcome"] == "interrupted"
    assert second["outcome"] == "", "it waits for its turn"
    cluster.ask("stop", runs[1])
    cluster.until(lambda: cluster.status()[1][runs[1]]["outcome"])
    assert cluster.stop() == {"head": 0}


@pytest.mark.long
def test_a_run_that_waits_for_a_worker_is_stopped_at_once(cluster: Cluster, code: Path) -> None:
    """None was ever there; then the only one died; then the head is to end."""
    first = cluster.submit(*COUNTING, "--json", cwd=code)
    cluster.until(lambda: "artos worker" in cluster.status()[1].get(RUN, {}).get("waits_for", ""))
    cluster.until(lambda: cluster.status()[1][RUN]["state"] == "running")
    cluster.ask("stop", RUN)
    assert first.wait(LITTLE) == 130, cluster.story()
    second = under_way(cluster, code, "w1", submission=("--resume", RUN))
    for process in (*cluster.processes("workers.executor"), cluster.workers["w1"]):
        process.kill()
    cluster.alive()
    assert cluster.status()[1][RUN]["state"] == "running"
    cluster.head.signal(signal.SIGINT)
    assert cluster.head.wait(LITTLE) == 0, cluster.story()
    assert "killed" not in cluster.head.said.partition("stopping: runs save")[2]
    second.kill()
    summary = json.loads((cluster.runs / RUN / "summary.json").read_bytes())
    assert summary["outcome"] == "interrupted"
    cluster.until(lambda: cluster.left() == [])


# -- how runs end ----------------------------------------------------------------------------------


@pytest.mark.long
def test_stop_saves_and_the_run_can_be_continued(cluster: Cluster, code: Path) -> None:
    submit = under_way(cluster, code, "w1")
    assert cluster.ask("scale", RUN, 2) == {"actors": 2, "most": 2}
    assert "2 are registered" in cluster.refused("scale", RUN, 9)
    now = {"configuration": 1, "settings": {"learner.shown": 3.0}}
    assert cluster.ask("set", RUN, "learner.shown=3") == now
    assert "what can: learner.shown" in cluster.refused("set", RUN, "learner.lr=1")
    assert cluster.ask("stop", RUN)["state"] == "stopping"
    assert submit.wait() == 130, cluster.story()
    steps = json.loads(submit.out)["steps"]
    assert steps < ROWS
    assert "interrupted after" in cluster.ask("logs", RUN)["text"]
    cluster.hurry()
    more = cluster.submit("--resume", RUN, "--json", cwd=code)
    assert more.wait() == 0, cluster.story()
    assert json.loads(more.out)["steps"] == ROWS
    cluster.until(lambda: cluster.left() == [])
    assert cluster.stop() == {"w1": 0, "head": 0}


@pytest.mark.long
def test_a_run_is_stopped_by_its_folder_on_the_machine_of_the_head(
    cluster: Cluster, code: Path
) -> None:
    submit = under_way(cluster, code, "w1")
    stop = cluster.start("here", "stop", cluster.runs / RUN)
    assert stop.wait() == 0, stop.said
    assert submit.wait() == 130, cluster.story()
    assert json.loads(submit.out)["outcome"] == "interrupted"
    cluster.until(lambda: cluster.left() == [])


@pytest.mark.long
def test_ctrl_c_stops_what_is_waited_for(cluster: Cluster, code: Path) -> None:
    submit = under_way(cluster, code, "w1")
    submit.signal(signal.SIGINT)
    assert submit.wait() == 130, cluster.story()
    assert json.loads(submit.out)["outcome"] == "interrupted"
    assert cluster.status()[1][RUN]["outcome"] == "interrupted"
    assert cluster.stop() == {"w1": 0, "head": 0}


def test_what_is_refused_says_why(cluster: Cluster, code: Path) -> None:
    (code / "broken.py").write_text("workload = 3\n")
    submit = cluster.submit("broken.py:workload", cwd=code)
    assert submit.wait() == 2, cluster.story()
    assert "not a Workload" in submit.said
    assert cluster.stop() == {"head": 0}


@pytest.mark.long
def test_the_head_is_told_to_stop_and_runs_save(cluster: Cluster, code: Path) -> None:
    cluster.start_worker("w1")
    cluster.alive("w1")
    run = cluster.ask("submit", *LONG, cwd=code)
    assert run == {"run": RUN, "folder": str(cluster.runs / RUN)}
    cluster.until_under_way(RUN)
    cluster.head.signal(signal.SIGTERM)
    assert cluster.head.wait() == 0, cluster.story()
    summary = json.loads((cluster.runs / RUN / "summary.json").read_bytes())
    assert summary["outcome"] == "interrupted"
    cluster.until(lambda: cluster.left() == [])
    cluster.start_head()
    cluster.alive("w1")
    assert cluster.status()[1][RUN]["outcome"] == "interrupted"
    assert cluster.stop() == {"w1": 0, "head": 0}


def held_slots() -> dict[str, str]:
    """Runs that have held slots of this machine, and of which kind."""
    return {each.workload.rsplit(".", 2)[0]: each.kind for each in read_pool().workloads}


@pytest.mark.long
def test_two_runs_share_the_slots_of_a_worker(cluster: Cluster, code: Path) -> None:
    cluster.start_worker("w1")
    cluster.alive("w1")
    other = RUN.replace("seed1", "seed2")
    first = cluster.submit(*LONG, cwd=code)
    cluster.until_under_way(RUN)
    second = cluster.submit(*LONG, "--seed", 2, cwd=code)
    cluster.until_under_way(other)
    cpus = cluster.cpus("w1")
    assert set(cpus[RUN]) == set(cpus[other]), "each has all slots that the other leaves"
    cluster.until(lambda: {*held_slots()} == {RUN, other})
    assert len({*held_slots().values()}) == 1, "they queue for the same slots"
    cluster.ask("stop", RUN)
    assert first.wait() == 130, cluster.story()
    cluster.ask("stop", other)
    assert second.wait() == 130, cluster.story()
    cluster.until(lambda: cluster.left() == [])
    assert cluster.stop() == {"w1": 0, "head": 0}


@pytest.mark.long
def test_one_slot_is_one_run_after_the_other(cluster: Cluster, code: Path) -> None:
    cluster.start_worker("w1", "--slots", 1)
    cluster.alive("w1")
    cluster.hurry()
    first, second = (cluster.submit(*COUNTING, "--seed", seed, cwd=code) for seed in (1, 2))
    assert first.wait() == 0, cluster.story()
    assert second.wait() == 0, cluster.story()
    assert {run["outcome"] for run in cluster.status()[1].values()} == {"done"}
    assert "waits for a slot" in first.said + second.said
    assert cluster.stop() == {"w1": 0, "head": 0}


@pytest.mark.long
@needs_mount
def test_a_run_waits_for_shared_memory_and_begins_once_another_has_left(
    cluster: Cluster, tmp_path: Path
) -> None:
    with small_disk(tmp_path / "shm", "40m") as shm:
        cluster.stop()
        cluster.start_head(ARTOS_SHM=str(shm))
        cluster.start_worker("w1")
        cluster.alive("w1")
        soon = ("--actors", 1, "--set", "after=64", "--set", "batch=32")
        large = ("dqn", "--total-steps", 10**8, "--set", "replay_size=600000", *soon, "--run-dir")
        first = cluster.ask("submit", *large, "first")["run"]
        cluster.until_under_way(first)
        second = cluster.ask("submit", *large, "second")["run"]
        cluster.until(lambda: "room in" in cluster.status()[1][second]["waits_for"])
        words = cluster.status()[1][second]["waits_for"]
        assert f"{shm} has" in words
        assert "this run needs" in words
        assert cluster.status()[1][second]["outcome"] == ""
        too_large = ("dqn", "--set", "replay_size=6000000", "--run-dir", "third", "--wait")
        assert cluster.submit(*too_large).wait() == 2, "it never fits"
        cluster.ask("stop", first)
        cluster.until_under_way(second)
        cluster.ask("stop", second)
        cluster.until(lambda: cluster.status()[1][second]["outcome"] == "interrupted")
        assert cluster.stop() == {"w1": 0, "head": 0}
