"""What Slurm is asked for: scripts and commands; a real Slurm is asked in the long tests."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from artos.clock import ManualClock
from deploy.launchers.bringing_up import up
from deploy.launchers.cluster import HEAD, Cluster
from deploy.launchers.engines.slurm import Engine
from deploy.launchers.launcher import EngineFailed, Here
from deploy.launchers.unit import worker_words


def cluster(**more: object) -> Cluster:
    given = {"name": "lab", "engine": "slurm", "folder": "/shared/my lab", "least": 2, "most": 4}
    return Cluster(**{**given, **more})  # type: ignore[arg-type]


def lines(script: str) -> list[str]:
    return script.splitlines()


def test_a_worker_is_the_batch_process_and_hears_of_its_end_in_time() -> None:
    script = lines(Engine(cluster(notice=120.0)).plan()["workers.sbatch"])
    assert "#SBATCH --array=0,1" in script
    assert "#SBATCH --signal=B:USR1@120" in script
    assert "#SBATCH --no-requeue" in script
    assert "#SBATCH '--output=/shared/my lab/logs/worker-%a.log'" in script
    assert script[-1] == (
        f"exec {sys.executable} -m deploy.launchers.unit '/shared/my lab' \"$SLURM_ARRAY_TASK_ID\""
    )


@pytest.mark.parametrize(
    ("config", "seconds"), [("", 120), ("stop_seconds = 600", 660), ("stop_seconds = 1e6", 65_535)]
)
def test_the_head_is_a_job_of_its_own_that_is_requeued_and_hears_of_its_end_in_time(
    config: str, seconds: int
) -> None:
    script = lines(Engine(cluster(config=config)).plan()["head.sbatch"])
    assert "#SBATCH --requeue" in script
    assert f"#SBATCH --signal=B:USR1@{seconds}" in script
    assert not [line for line in script if "--array" in line]
    assert script[-1].endswith(f"'/shared/my lab' {HEAD}")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "--exclusive"),
        ({"slots": 3}, "--cpus-per-task=3"),
        ({"worker_options": ("-c", "8")}, ""),
        ({"worker_options": ("--exclusive=user",)}, ""),
    ],
)
def test_a_worker_never_shares_a_node_unnoticed(given: dict[str, object], expected: str) -> None:
    script = Engine(cluster(**given)).plan()["workers.sbatch"]
    sizes = [each for each in ("--exclusive\n", "--cpus-per-task=3\n") if each in script]
    assert [each.strip() for each in sizes] == ([expected] if expected else [])


def test_options_are_passed_on_whatever_is_in_them() -> None:
    script = Engine(cluster(worker_options=("--constraint=a b; reboot",))).plan()["workers.sbatch"]
    assert "#SBATCH '--constraint=a b; reboot'" in lines(script)


def test_no_script_holds_a_secret_or_a_port() -> None:
    for script in Engine(cluster()).plan().values():
        assert "key" not in script
        assert "tcp://" not in script


@pytest.mark.parametrize(
    ("variables", "here"),
    [
        ({}, Here()),
        ({"SLURM_CPUS_ON_NODE": "12"}, Here(12)),
        (
            {"SLURM_CPUS_ON_NODE": "12", "SLURM_JOB_GPUS": "2,3", "CUDA_VISIBLE_DEVICES": "2,3"},
            Here(12, "cuda:0,cuda:1"),
        ),
        ({"CUDA_VISIBLE_DEVICES": "0"}, Here()),  # not of this job
    ],
)
def test_a_unit_has_what_its_job_was_given(
    variables: dict[str, str], here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SLURM_CPUS_ON_NODE", "SLURM_JOB_GPUS", "CUDA_VISIBLE_DEVICES", "SLURM_JOB_ID"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert Engine(cluster()).here() == here


@pytest.mark.parametrize(
    ("told", "seconds"),
    [("9:58", 598), ("2:00:01", 7_201), ("3-00:10:00", 259_800), ("UNLIMITED", 0), ("", 0)],
)
def test_a_unit_knows_the_end_of_its_allocation(
    told: str, seconds: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    squeue = tmp_path / "squeue"
    squeue.write_text(f'#!/bin/sh\n[ "$*" = "--jobs 17 -ho %L" ] && echo "{told}"\n')
    squeue.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    here = Engine(cluster()).here()
    assert here.seconds == seconds
    words = worker_words(cluster(), 3, here)
    assert ("--lifetime" in words) == (seconds > 0)
    assert "--lifetime" not in worker_words(cluster(), 3, Here(seconds=1.0)), "it is over already"


PARTITIONS = """\
PartitionName=spot AllowGroups=ALL Default=YES QoS=N/A GraceTime=0 PreemptMode=REQUEUE State=UP
PartitionName=kind AllowGroups=ALL Default=NO QoS=N/A GraceTime=300 PreemptMode=CANCEL State=UP
PartitionName=long AllowGroups=ALL Default=NO QoS=N/A GraceTime=0 PreemptMode=OFF State=UP
"""


@pytest.mark.parametrize(
    ("given", "by", "cut_short"),
    [
        ({}, "partition_prio", "partition spot kills a preempted job 30 s after telling it"),
        ({"notice": 30.0}, "partition_prio", ""),
        ({"worker_options": ("--partition=kind",)}, "partition_prio", ""),
        ({"worker_options": ("-p", "long")}, "partition_prio", ""),
        ({"worker_options": ("-c", "8", "-plong,spot")}, "partition_prio", "partition spot"),
        ({"worker_options": ("--partition",)}, "partition_prio", ""),
        ({"head_options": ("--qos=first",)}, "qos", ""),  # that has times of its own
        ({}, "none", ""),
    ],
)
def test_a_notice_that_slurm_would_cut_short_is_told(
    given: dict[str, object], by: str, cut_short: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    set_up(tmp_path, monkeypatch, by, PARTITIONS)
    cautions = Engine(cluster(**given)).cautions()
    assert len(cautions) == bool(cut_short)
    assert cut_short in "".join(cautions)


def set_up(folder: Path, monkeypatch: pytest.MonkeyPatch, by: str, partitions: str) -> None:
    """Have ``scontrol`` say that jobs are preempted so, and that there are these partitions."""
    (folder / "partitions").write_text(partitions)
    config = f"KillWait                = 30 sec\nPreemptType             = preempt/{by}\n"
    (folder / "config").write_text(config)
    scontrol = folder / "scontrol"
    scontrol.write_text(
        f'#!/bin/sh\ncase "$*" in\n"show config") cat {folder}/config ;;\n'
        f'"--oneliner show partition") cat {folder}/partitions ;;\nesac\n'
    )
    scontrol.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")


@pytest.mark.parametrize(
    ("options", "by", "said"),
    [
        ((), "partition_prio", "partition spot makes room for kind, long: give --head-options"),
        (("-p", "kind"), "partition_prio", "partition kind makes room for long"),
        (("--partition=long",), "partition_prio", ""),  # there is none above it
        (("--partition=apart",), "partition_prio", ""),
        ((), "none", ""),
        (("-p", "long"), "qos", "goes by quality of service here: give --head-options"),
        (("--qos=first",), "qos", ""),
        (("-q", "first"), "qos", ""),
        (("-qfirst",), "qos", ""),
    ],
)
def test_a_head_that_may_be_preempted_is_told(
    options: tuple[str, ...], by: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    partitions = """\
PartitionName=spot Default=YES GraceTime=0 PriorityJobFactor=1 PriorityTier=1 PreemptMode=REQUEUE
PartitionName=kind Default=NO GraceTime=0 PriorityJobFactor=1 PriorityTier=5 PreemptMode=CANCEL
PartitionName=long Default=NO GraceTime=0 PriorityJobFactor=1 PriorityTier=10 PreemptMode=REQUEUE
PartitionName=apart Default=NO GraceTime=0 PriorityJobFactor=1 PriorityTier=1 PreemptMode=OFF
"""
    set_up(tmp_path, monkeypatch, by, partitions)
    cautions = Engine(cluster(head_options=options, notice=30.0)).cautions()
    assert len(cautions) == bool(said)
    assert said in "".join(cautions)


def test_variables_that_are_not_passed_on_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``sbatch`` is run without them, as within a job some are that job's."""
    set_up(tmp_path, monkeypatch, "none", PARTITIONS)
    for name in [name for name in os.environ if name.startswith("SBATCH_")]:
        monkeypatch.delenv(name)
    assert Engine(cluster()).cautions() == []
    for name in ("SBATCH_PARTITION", "SBATCH_ACCOUNT", "SBATCH_MEM_BIND_LIST", "SLURM_CONF"):
        monkeypatch.setenv(name, "mine")
    (caution,) = Engine(cluster()).cautions()
    assert caution.startswith("slurm: SBATCH_ACCOUNT, SBATCH_PARTITION: not passed on")
    assert "--head-options and --worker-options" in caution


def test_up_tells_what_the_engine_would_cut_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(engine: Engine, indexes: object) -> None:
        raise EngineFailed("slurm", "start it", "no such partition")

    for name, does in (
        ("faults", staticmethod(lambda _: [])), ("cautions", lambda _: ["it is cut short"]),
        ("units", lambda _: []), ("start", refuse),
    ):  # fmt: skip
        monkeypatch.setattr(Engine, name, does)
    said: list[str] = []
    with pytest.raises(EngineFailed, match="no such partition"):
        up(cluster(folder=str(tmp_path / "lab")), 0.0, said.append)
    assert said == ["it is cut short"]


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("None", ""),
        ("Resources", "Resources"),
        ("QOSMaxCpuPerUserLimit", "QOSMaxCpuPerUserLimit: a quota of Slurm's is used up"),
        ("AssocGrpCpuLimit", "AssocGrpCpuLimit: a quota of Slurm's is used up"),
        ("QOSUsageThreshold", "QOSUsageThreshold: a quota"),
        ("QOSNotAllowed", "QOSNotAllowed"),
        ("PartitionTimeLimit", "PartitionTimeLimit: its partition gives no job that much"),
        ("JobHeldUser", "JobHeldUser: it starts after `scontrol release 17_1`"),
        ("launch failed requeued held", "launch failed requeued held: it starts after `scontrol"),
    ],
)
def test_what_a_quota_or_a_limit_means_is_told(
    reason: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = f"17_1|1|artos:lab:worker|PENDING||{reason}|2026-01-02T03:04:05|N/A|/shared/my lab"
    squeue = tmp_path / "squeue"
    squeue.write_text(f"#!/bin/sh\necho '{fields}'\n")
    squeue.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    (unit,) = Engine(cluster()).units()
    assert (unit.index, unit.state) == (1, "waits")
    assert unit.why.startswith(told)
    assert (unit.why == reason) == (told == reason)


def test_a_folder_may_have_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slurm replaces %a in the names of files, and | stands between what it tells of a job."""
    lab, squeue = cluster(folder="/shared/50%a|b"), tmp_path / "squeue"
    scripts = Engine(lab).plan()
    assert "#SBATCH '--output=/shared/50%%a|b/logs/worker-%a.log'" in scripts["workers.sbatch"]
    assert "#SBATCH '--output=/shared/50%%a|b/logs/head.log'" in scripts["head.sbatch"]
    assert all("'--chdir=/shared/50%a|b'" in script for script in scripts.values())
    told = "17_1|1|artos:lab:worker|RUNNING|w1|None|2026-01-02T03:04:05|N/A|"
    squeue.write_text(f"#!/bin/sh\necho '{told}/shared/50%a|b'\necho '{told}/shared/50%a'\n")
    squeue.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    (unit,) = Engine(lab).units()
    assert (unit.index, unit.state) == (1, "runs")


def test_what_slurm_would_not_take_is_told_and_not_submitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sbatch = tmp_path / "sbatch"
    sbatch.write_text(
        '#!/bin/sh\n[ "$*" = --test-only ] || exit 0\n'
        "grep -q -- '--array=1,3$' || exit 0\nprintf 'error: A\\nno job: B\\n' >&2\nexit 1\n"
    )
    sbatch.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert Engine(cluster()).refusal([1, 3]) == "error: A; no job: B"
    assert Engine(cluster()).refusal([1]) == ""


def test_slurm_is_asked_seldom_whether_it_would_take_a_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sbatch = tmp_path / "sbatch"
    sbatch.write_text(f"#!/bin/sh\necho >>{tmp_path}/asked\necho 'no such account' >&2\nexit 1\n")
    sbatch.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    clock = ManualClock()
    engine = Engine(cluster(), clock)
    for asked in (1, 1, 2):
        assert engine.refusal([0, 1]) == "no such account"
        assert len((tmp_path / "asked").read_text().splitlines()) == asked
        clock.advance(6.0)
    sbatch.write_text("#!/bin/sh\n")
    assert engine.refusal([0, 1]) == "no such account"
    clock.advance(6.0)
    assert engine.refusal([0, 1]) == "", "it would take them now"


def test_without_scontrol_there_is_no_caution(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert Engine(cluster()).cautions() == []


def test_where_slurm_is_not_installed_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    (fault,) = Engine.faults(cluster())
    assert "sbatch, squeue, scancel cannot be found" in fault
