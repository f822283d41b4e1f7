"""Slurm: the head is a job of its own, workers are elements of job arrays of one node each.

A worker's batch process is the worker itself, so both of Slurm's notices reach it: SIGTERM when its
job is preempted or cancelled, and SIGUSR1 some time before its time limit (``--signal``). Workers
are not requeued: that takes two minutes by Slurm's rules, and the keeper asks for another one at
once, with an index that is free. The head is requeued, also by itself before its time limit, and
finds its runs in the shared folder.
"""

from __future__ import annotations

import argparse
import logging
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from time import time
from typing import ClassVar

from artos.clock import Clock, SystemClock
from deploy.launchers.cluster import HEAD, Cluster
from deploy.launchers.launcher import EngineFailed, Here, Launcher, State, Unit

_log = logging.getLogger(__name__)
_SECONDS = 60.0
_MOST_EARLY = 65_535
"""Seconds before the time limit at which Slurm may send a signal."""
_TRIED_EVERY = 10.0
"""Seconds between two questions whether Slurm would take a job, which its controller plans then."""
_PROGRAMS = ("sbatch", "squeue", "scancel")
_SIZES = ("--exclusive", "--cpus-per-task", "-c", "--ntasks", "-n")
"""Options that say how much of a node a unit gets; without any, jobs share nodes unnoticed."""
_STATES: Mapping[str, State] = {
    "PENDING": "waits", "CONFIGURING": "waits", "REQUEUED": "waits", "REQUEUE_HOLD": "waits",
    "RUNNING": "runs", "SUSPENDED": "runs", "SIGNALING": "runs", "STAGE_OUT": "runs",
    "RESIZING": "runs",
}  # fmt: skip
_FIELDS = {
    "id": "%i", "index": "%K", "name": "%j", "state": "%T", "where": "%N", "why": "%r",
    "asked": "%V", "began": "%S", "comment": "%k",
}  # fmt: skip
_MEANINGS = {
    r"Partition\w+Limit": "its partition gives no job that much, so it never starts: ask for less, "
    "or for another partition",
    r"(QOS|Assoc)\w+(Limit|Threshold)": "a quota of Slurm's is used up: it starts once other jobs "
    "that count have ended, or never if it asks for more than the quota",
    r".*[Hh]eld.*": "it starts after `scontrol release {job}`",
}
"""Of reasons for which a job may wait for ever."""
_Partition = Mapping[str, str]
"""What Slurm says of one, by its names."""
_OF_USER = re.compile("SBATCH_(?!CPU_BIND|MEM_BIND)")
"""Variables by which users give options to ``sbatch``; the others Slurm sets in a job."""
_LEFT = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)")


class Engine(Launcher):
    """Slurm, by its commands on this machine."""

    secrets: ClassVar[tuple[str, ...]] = ("SLURM_JWT",)

    def __init__(self, cluster: Cluster, clock: Clock | None = None) -> None:
        super().__init__(cluster)
        self._clock = clock or SystemClock()
        self._tried_at, self._refusal = float("-inf"), ""

    @staticmethod
    def faults(cluster: Cluster) -> list[str]:
        """Whether Slurm's commands are here."""
        missing = [name for name in _PROGRAMS if shutil.which(name) is None]
        if missing:
            here = ", ".join(missing)
            return [f"slurm: {here} cannot be found: run this on a machine that submits jobs"]
        return []

    def cautions(self) -> list[str]:
        """What a user's variables say in vain, and what preemption would cut short."""
        ignored = ", ".join(filter(_OF_USER.match, sorted(os.environ)))
        found = [
            f"slurm: {ignored}: not passed on to sbatch: say the same with --head-options and "
            "--worker-options"
        ] if ignored else []  # fmt: skip
        try:
            config = self._run("show its configuration", "scontrol", "show", "config")
            partitions = self._run(
                "show its partitions", "scontrol", "--oneliner", "show", "partition"
            )
        except EngineFailed:
            return found
        by = re.search(r"^PreemptType\s*=\s*preempt/(\w+)", config, re.MULTILINE)
        named = _given(self._cluster.head_options, "-q", "--qos")
        if by and by[1] == "qos" and not named:  # which preempts which only the accounting knows
            found.append(
                "slurm: the head may be preempted, as that goes by quality of service here: give "
                "--head-options one that no other preempts (--qos=NAME)"
            )
        if not by or by[1] != "partition_prio":
            return found
        told = [
            dict(word.split("=", 1) for word in line.split() if "=" in word)
            for line in partitions.splitlines()
        ]
        found += _cut_short(self._cluster, config, told)
        return [*found, *_preempted(self._cluster, told)]

    def plan(self) -> Mapping[str, str]:
        """The batch scripts."""
        first = range(self._cluster.least) or range(1)
        return {"head.sbatch": self._script([HEAD]), "workers.sbatch": self._script(first)}

    def start(self, indexes: Sequence[int]) -> None:
        """Submit the head's job, or one array of workers."""
        self._run("start it", "sbatch", "--parsable", script=self._script(indexes))

    def units(self) -> list[Unit]:
        """The jobs of this cluster, those that are completing, too."""
        names = ",".join(map(self._name, (True, False)))
        asked = ("--me", "--noheader", "--array", f"--name={names}")
        rows = self._run(
            "list its jobs", "squeue", *asked, f"--format={'|'.join(_FIELDS.values())}"
        )
        most = len(_FIELDS) - 1  # a folder, in the comment, may have any character
        found = (
            dict(zip(_FIELDS, row.split("|", most), strict=False)) for row in rows.splitlines()
        )
        return [self._unit(each) for each in found if each.get("comment") == self._cluster.folder]

    def stop(self, unit: Unit, *, now: bool = False) -> None:
        """Signal its batch process, or cancel the job."""
        gently = () if now else ("--batch", "--signal=TERM")
        try:
            self._run(f"stop job {unit.id}", "scancel", *gently, unit.id)
        except EngineFailed:  # it may have ended meanwhile
            if any(each.id == unit.id and each.state != "ends" for each in self.units()):
                raise

    def refusal(self, workers: Sequence[int]) -> str:
        """Why Slurm would take no job for them, as it would not when the head asked for them."""
        if (now := self._clock.now()) - self._tried_at >= _TRIED_EVERY:
            try:
                self._run("try it", "sbatch", "--test-only", script=self._script(workers))
                self._refusal = ""
            except EngineFailed as failed:
                self._refusal = "; ".join(failed.why.splitlines())
            self._tried_at = now
        return self._refusal

    def here(self) -> Here:
        """The CPUs and GPUs of this job on this node, and the end of its allocation."""
        cpus = os.environ.get("SLURM_CPUS_ON_NODE", "")
        gpus = ""
        if "SLURM_JOB_GPUS" in os.environ or "SLURM_GPUS_ON_NODE" in os.environ:
            gpus = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        devices = ",".join(
            f"cuda:{number}" for number, _ in enumerate(filter(None, gpus.split(",")))
        )
        seconds = 0.0
        if job := os.environ.get("SLURM_JOB_ID"):
            with suppress(EngineFailed):  # the worker hears the signal before its time is over
                left = self._run("ask for its time", "squeue", "--jobs", job, "-ho", "%L")
                seconds = _seconds_left(left.strip())
        return Here(int(cpus) if cpus.isdecimal() else 0, devices, seconds)

    def start_again(self) -> None:
        """Requeue this job, which ends it; Slurm does so after a failure, not at a time limit."""
        job = os.environ["SLURM_JOB_ID"]
        _log.info("job %s asks to be requeued, as its time limit is near", job)
        self._run(f"requeue job {job}", "scontrol", "requeue", job)

    def _script(self, indexes: Sequence[int]) -> str:
        cluster, head = self._cluster, HEAD in indexes
        logs = str(cluster.logs).replace("%", "%%")
        own = cluster.head_options if head else cluster.worker_options
        options = [
            f"--job-name={self._name(head)}", f"--comment={cluster.folder}", "--nodes=1",
            f"--chdir={cluster.folder}", "--open-mode=append",
        ]  # fmt: skip
        if head:
            seconds = min(_MOST_EARLY, cluster.head_seconds)
            options += [
                f"--output={logs}/head.log", "--requeue", f"--signal=B:USR1@{seconds:.0f}",
            ]  # fmt: skip
            size = "--cpus-per-task=2"
        else:
            options += [
                f"--output={logs}/worker-%a.log", "--no-requeue",
                f"--array={','.join(map(str, indexes))}", f"--signal=B:USR1@{cluster.notice:.0f}",
            ]  # fmt: skip
            size = f"--cpus-per-task={cluster.slots}" if cluster.slots else "--exclusive"
        if not any(word.split("=")[0] in _SIZES for word in own):
            options.append(size)
        lines = [f"#SBATCH {shlex.quote(word)}" for word in (*options, *own)]
        command = shlex.join(cluster.unit(HEAD)[:-1])
        index = str(HEAD) if head else '"$SLURM_ARRAY_TASK_ID"'
        return "\n".join(["#!/bin/sh", *lines, f"exec {command} {index}", ""])

    def _name(self, head: bool) -> str:
        return f"artos:{self._cluster.name}:{'head' if head else 'worker'}"

    def _unit(self, told: Mapping[str, str]) -> Unit:
        state: State = _STATES.get(told["state"], "ends")
        since = told["asked" if state == "waits" else "began"]
        return Unit(
            HEAD if told["name"] == self._name(True) else int(told["index"]),
            told["id"],
            state,
            told["where"],
            _in_words(told["why"], told["id"]),
            _seconds(since),
        )

    def _run(self, what: str, *words: str, script: str = "") -> str:
        """Run a command of Slurm's; within a job, without what that job has been given."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if name == "SLURM_CONF" or not name.startswith(("SLURM_", "SBATCH_", "SQUEUE_"))
        }
        try:
            done = subprocess.run(
                words, input=script, capture_output=True, text=True, timeout=_SECONDS, env=kept,
                check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            raise EngineFailed("slurm", what, str(error)) from error
        if done.returncode:
            said = done.stderr.strip() or f"{words[0]} ended with status {done.returncode}"
            raise EngineFailed("slurm", what, said)
        return done.stdout


def _given(options: Sequence[str], *flags: str) -> str | None:
    """What these options of sbatch say with one of its flags, "": nothing; None: they are wrong."""
    parser = argparse.ArgumentParser(add_help=False, exit_on_error=False)
    parser.add_argument(*flags, dest="given", default="")
    try:
        return str(parser.parse_known_args(options)[0].given)
    except argparse.ArgumentError:  # sbatch says so
        return None


def _used(options: Sequence[str], partitions: Sequence[_Partition]) -> list[_Partition]:
    """The partitions in which a job with these options may run."""
    if (given := _given(options, "-p", "--partition")) is None:
        return []
    chosen = {name for name in given.split(",") if name}
    return [
        each
        for each in partitions
        if (each.get("PartitionName") in chosen if chosen else each.get("Default") == "YES")
    ]


def _preempted(cluster: Cluster, partitions: Sequence[_Partition]) -> Iterator[str]:
    """The partitions of the head that make room for others, as Slurm is set up."""
    for each in _used(cluster.head_options, partitions):
        name, tier = each.get("PartitionName", ""), int(each.get("PriorityTier", 0))
        higher = [
            other.get("PartitionName", "")
            for other in partitions
            if int(other.get("PriorityTier", 0)) > tier
        ]
        if higher and each.get("PreemptMode", "OFF") != "OFF":
            yield (
                f"slurm: the head may be preempted, as partition {name} makes room for "
                f"{', '.join(higher)}: give --head-options a partition that does not"
            )


def _cut_short(cluster: Cluster, config: str, partitions: Sequence[_Partition]) -> Iterator[str]:
    """The partitions of workers that are killed before their notice is over, as Slurm is set up."""
    kill_wait = re.search(r"^KillWait\s*=\s*(\d+)", config, re.MULTILINE)
    if kill_wait is None:
        return
    for told in _used(cluster.worker_options, partitions):
        name, grace = told.get("PartitionName", ""), told.get("GraceTime", "")
        spared = told.get("PreemptMode", "").startswith(("OFF", "SUSPEND"))
        if spared or not grace.isdecimal():
            continue
        seconds = int(grace) + int(kill_wait[1])
        if seconds < cluster.notice:
            yield (
                f"slurm: partition {name} kills a preempted job {seconds} s after telling it "
                f"(GraceTime {grace}, KillWait {kill_wait[1]}), sooner than --notice "
                f"{cluster.notice:g}: give --notice {seconds}, or ask for a longer GraceTime"
            )


def _in_words(why: str, job: str) -> str:
    """What a job waits for, by Slurm's name, and what that means if it may wait for ever."""
    for reason, meaning in _MEANINGS.items():
        if re.fullmatch(reason, why):
            return f"{why}: {meaning.format(job=job)}"
    return why if why != "None" else ""


def _seconds(told: str) -> float:
    """A time as ``squeue`` prints it, in seconds since 1970; 0 if there is none."""
    try:
        return min(time(), datetime.fromisoformat(told).timestamp())
    except ValueError:
        return 0.0


def _seconds_left(told: str) -> float:
    """A duration as ``squeue`` has it, ``[DAYS-][HOURS:]MINUTES:SECONDS``; 0 if there is none."""
    if (found := _LEFT.fullmatch(told)) is None:  # as UNLIMITED
        return 0.0
    days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
