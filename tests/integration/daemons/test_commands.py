"""What commands send and print, and what a submission becomes; without processes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from artos.errors import NoSuchRun, Refused
from artos.protocol.control import Submit
from artos.protocol.views import ClusterView, RunView
from artos.runs.exit_status import ExitStatus
from deploy.client import overview
from deploy.client.submit import Wanted, code_of, outcome_text
from head.daemon.run import Run
from head.daemon.scheduler import Scheduler
from head.daemon.submissions import admitted, find, request_of

NODE = {"name": "w1", "alive": True, "slots": 4, "actors": 3, "runs": {"r1": 3}, "leaves": "",
        "cpu": 0.5, "memory": 0.25, "memory_mb": 1000, "silent_seconds": 0.3}  # fmt: skip
RUN = {"name": "r1", "user": "ann", "state": "running", "outcome": "", "why": "",
       "waits_for": "", "actors": 3, "folder": "/runs/r1", "placement": "pack", "restarts": 0,
       "nodes": {"w1": 3}, "facts": None}  # fmt: skip


def run_of(plain: dict[str, Any]) -> RunView:
    return msgspec.convert(plain, RunView)


def view_of(plain: dict[str, Any]) -> ClusterView:
    return msgspec.convert(plain, ClusterView)


def shown(nodes: list[dict[str, Any]], runs: list[dict[str, Any]]) -> str:
    return overview.text(overview.cluster(view_of({"nodes": nodes, "runs": runs})))


def test_nodes_and_runs_as_tables() -> None:
    picture = shown([NODE], [RUN])
    node, run = (next(line for line in picture.splitlines() if line.startswith(n))
                 for n in ("w1", "r1"))  # fmt: skip
    assert node.split() == ["w1", "alive", "4", "3", "50%", "25%", "r1", "3"]
    assert run.split() == ["r1", "ann", "running", "3", "w1"]


@pytest.mark.parametrize(
    ("nodes", "runs", "words"),
    [
        ([], [], "there are no workers"),
        ([NODE | {"alive": False, "silent_seconds": 40}], [], "gone for 40 s"),
        ([NODE | {"leaves": "it is drained"}], [], "it is drained"),
        ([NODE | {"runs_per_slot": 3}], [], "4 for 12 runs"),
        ([NODE], [RUN | {"waits_for": "a worker"}], "waits for a worker"),
        ([NODE], [RUN | {"state": "failed", "outcome": "refused", "why": "no\nmore"}], "refused"),
        ([NODE], [RUN | {"facts": {"steps": 12, "steps_per_second": 1.0}}], "12 steps"),
        ([NODE | {"faults": 2}], [], "worker w1 survived 2 faults, 0 malformed messages"),
        ([], [RUN | {"facts": {"malformed": 1}}], "run r1 survived 0 faults, 1 malformed"),
    ],
)
def test_what_matters_is_in_the_picture(nodes, runs, words) -> None:
    assert words in shown(nodes, runs)


def test_quotas_are_shown_with_what_is_held_of_them() -> None:
    limits = {"slots": {"held": 3, "limit": 4}, "cpu_seconds": {"held": 1234.5, "limit": 36_000}}
    status = {"nodes": [NODE], "runs": [RUN], "quotas": {"user ann": limits}}
    last = overview.text(overview.cluster(view_of(status))).splitlines()[-1]
    assert re.split(r" {2,}", last) == ["user ann", "3 of 4", "1,234.5 of 36,000"]


def test_one_run_in_full() -> None:
    failed = run_of(RUN | {"why": "all of it", "outcome": "failed"})
    picture = overview.text(overview.run(failed))
    for words in ("all of it", "/runs/r1", "3 on w1", "pack", "ann"):
        assert words in picture


# -- what travels ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("workload", "settings", "travels"),
    [
        ("ppo", {}, False),
        ("ppo", {"env": "CartPole-v1", "actors": "0:4,5:8", "lr": "0.001"}, False),
        ("ppo", {"actors": "noise_scale:2..16"}, False),
        ("ppo", {"env": "my_env:make"}, True),
        ("ppo", {"env": "my_env:make(task=1)"}, True),
        ("ppo", {"env": "my_env:Mine-v0"}, True),
        ("ppo", {"env": "vector:my_env:Mine-v0"}, True),
        ("ppo", {"env": "envs.mine:make"}, True),
        ("ppo", {"env": "envs/mine.py:make"}, True),
        ("ppo", {"env": "pettingzoo:my_env"}, True),
        ("ppo", {"env": "pettingzoo:envs.mine"}, True),
        ("ppo", {"env": "CartPole-v1(wrappers=[('my_env:W', {'by': 2})])"}, True),
        ("ppo", {"env_args": {"wrappers": ["gymnasium.wrappers:TimeLimit", "my_env:W"]}}, True),
        ("ppo", {"env": "pettingzoo:classic.rps_v2"}, False),
        ("ppo", {"env": "mo_gymnasium:deep-sea-treasure-v0"}, False),
        ("ppo", {"env": "openenv:ws://127.0.0.1:8000"}, False),
        ("ppo", {"env": "CartPole-v1(a='my_env:make')"}, False),
        ("algo.py:workload", {}, True),
    ],
)
def test_the_users_folder_travels_if_something_there_is_named(
    workload: str, settings: dict[str, Any], travels: bool, tmp_path: Path
) -> None:
    (tmp_path / "envs").mkdir()
    for name in ("algo.py", "my_env.py", "envs/mine.py"):
        (tmp_path / name).touch()
    folder = code_of(Wanted(workload, settings, folder=tmp_path))[1]
    assert folder == (tmp_path.resolve() if travels else None)


def test_the_folder_of_the_file_is_what_travels(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "algo.py").write_text("")
    wanted = Wanted("mine/algo.py:build", folder=tmp_path)
    assert code_of(wanted) == ("algo.py:build", (tmp_path / "mine").resolve())


def test_a_file_that_is_not_there_is_refused_here(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="no file"):
        code_of(Wanted("algo.py:build", folder=tmp_path))


# -- how it ends -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcome", "status"),
    [("done", 0), ("failed", 1), ("refused", 2), ("interrupted", 130)],
)
def test_the_exit_status_is_that_of_the_run(outcome: str, status: int) -> None:
    assert ExitStatus.of_outcome(outcome) == status


def test_the_outcome_in_words() -> None:
    over = RUN | {"outcome": "interrupted", "summary": None}
    assert outcome_text(run_of(over)) == "r1: interrupted\nrun folder on the head: /runs/r1"
    summary = {"mean_return_100": 3.25, "steps": 1200, "seconds": 5.0}
    said = outcome_text(run_of(over | {"summary": summary}))
    assert "mean return 3.2" in said
    assert "1,200 steps in 5 s" in said


# -- what a submission becomes ---------------------------------------------------------------------


@pytest.fixture
def schedule() -> Scheduler:
    return Scheduler()


def admit(schedule: Scheduler, root: Path, **request: Any) -> Run:
    submit = Submit({"ticket": "t", **request}, "archive", "pack")
    run = admitted(request_of(submit), submit, schedule, root, "ann")
    schedule.submit(run)
    return run


@pytest.mark.parametrize("weight", [1e-320, "1e-320", 0, -1, 1e9, "inf", "nan"])
def test_no_weight_makes_what_is_held_infinite(
    weight: Any, schedule: Scheduler, tmp_path: Path
) -> None:
    with pytest.raises(Refused, match=r"weight must be within 0\.001 and 1000, 1 is usual, not"):
        admit(schedule, tmp_path, workload="ppo", settings={"weight": weight})
    for given in (0.001, "1000"):
        assert admit(schedule, tmp_path, workload="ppo", settings={"weight": given}).weight


def test_runs_are_named_like_those_of_one_machine(schedule: Scheduler, tmp_path: Path) -> None:
    names = [
        admit(schedule, tmp_path, **request).name
        for request in (
            {"workload": "ppo"},
            {"workload": "ppo", "settings": {"env": "CartPole-v1"}, "seed": 3},
            {"workload": "algo.py:build"},
            {"workload": "algo.py:build"},
            {"workload": "algo.py:build", "settings": {"env": "my_env:make"}},
        )
    ]
    assert names == [
        "ppo-default-seed1-1", "ppo-CartPole-v1-seed3-1", "algo-build-seed1-1",
        "algo-build-seed1-2", "algo-my_env-make-seed1-1",
    ]  # fmt: skip


def test_a_folder_may_be_chosen_unless_a_run_is_there(schedule: Scheduler, tmp_path: Path) -> None:
    run = admit(schedule, tmp_path, workload="ppo", run_dir="runs/mine")
    assert (run.name, run.folder) == ("mine", str(tmp_path / "runs" / "mine"))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "config.json").write_text("{}")
    with pytest.raises(Refused, match="already holds a run"):
        admit(schedule, tmp_path, workload="ppo", run_dir="other")
    with pytest.raises(Refused, match="mine is queued"):
        admit(schedule, tmp_path, workload="ppo", run_dir="runs/mine")


def test_a_run_never_takes_the_name_of_another(schedule: Scheduler, tmp_path: Path) -> None:
    """Users call a run by its name: they would stop, read or resume another one."""
    run = admit(schedule, tmp_path, workload="ppo", run_dir="sweep1/lr3")
    run.end("done", "")
    with pytest.raises(Refused, match=r"the name lr3 is taken by a run of ann in .*/sweep1/lr3:"):
        admit(schedule, tmp_path, workload="ppo", run_dir="sweep2/lr3")
    assert schedule.runs["lr3"] is run
    for name in ("lr3", "lr3/", "sweep1/lr3", "./sweep1/lr3", run.folder):
        assert find(schedule, name) is run
    for name in ("sweep2/lr3", "/lr3", "/sweep1/lr3", f"/x{run.folder}"):
        with pytest.raises(NoSuchRun):
            find(schedule, name)
    assert admit(schedule, tmp_path, workload="ppo", run_dir="sweep1/lr3") is not run


@pytest.mark.parametrize(
    "run_dir",
    ["..", "../x", "a/../../x", "/elsewhere/x", "/", ".", ".head", ".head/orders/x", "a/.x/y",
     "a\0b", "a b", "~", "out/x", "out/in/x"],
)  # fmt: skip
def test_a_run_is_in_the_heads_folder_of_runs(
    run_dir: str, schedule: Scheduler, tmp_path: Path
) -> None:
    """Also through a link, and not among the head's own files: a user may write there."""
    root, elsewhere = tmp_path / "runs", tmp_path / "elsewhere"
    for each in (root, elsewhere):
        each.mkdir()
    (root / "out").symlink_to(elsewhere)
    with pytest.raises((Refused, OSError)):
        admit(schedule, root.resolve(), workload="ppo", run_dir=run_dir)
    assert not schedule.runs
    assert not [*elsewhere.iterdir()]


def test_what_is_continued_keeps_its_code_and_settings(schedule: Scheduler, tmp_path: Path) -> None:
    settings = {"lr": "0.1", "total_steps": 100}
    run = admit(schedule, tmp_path, workload="a.py:b", settings=settings, seed=4)
    run.end("interrupted", "")
    again = admit(schedule, tmp_path, resume=run.folder, settings={"total_steps": 200})
    assert (again.name, again.folder, again.archive, again.placement, again.resume) == (
        run.name, run.folder, "archive", "pack", True,
    )  # fmt: skip
    assert again.request["settings"] == {"lr": "0.1", "total_steps": 200}
    assert (again.request["workload"], again.request["seed"]) == ("a.py:b", 4)
    with pytest.raises(Refused, match="did you mean"):
        admit(schedule, tmp_path, resume="a-b-seed4-11")


@pytest.mark.parametrize("ended_by", ["total_steps", "total_updates", "return"])
def test_what_is_done_is_continued_only_for_more(
    ended_by: str, schedule: Scheduler, tmp_path: Path
) -> None:
    run = admit(schedule, tmp_path, workload="ppo")
    run.end("done", "")
    Path(run.folder).mkdir()
    made = {"outcome": "done", "ended_by": ended_by, "steps": 100, "updates": 100}
    (Path(run.folder) / "summary.json").write_text(json.dumps(made))
    if ended_by != "return":
        for settings in ({}, {"lr": 0.1}, {ended_by: 100}, {ended_by: "1e2"}, {ended_by: 99.0}):
            with pytest.raises(Refused, match=f"{run.name} is done, after 100 "):
                admit(schedule, tmp_path, resume=run.name, settings=settings)
        both = {ended_by: 200, "total_updates": 50, "total_steps": 50}
        with pytest.raises(Refused, match="is done, after 100 "):
            admit(schedule, tmp_path, resume=run.name, settings=both)
    again = admit(schedule, tmp_path, resume=run.name, settings={ended_by: "200"})
    again.end("refused", "lr is no number")
    assert admit(schedule, tmp_path, resume=run.name).resume, "what it was to make is kept"
