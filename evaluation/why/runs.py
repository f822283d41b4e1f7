"""Makes the runs of a case, and reads how fast they were from their journals."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from artos.errors import ArtosError
from deploy.tracing.lines import config_of, lines_of
from deploy.why.report import Report, report
from evaluation.why.cases import DISK, Case, Settings, Way, words_of
from evaluation.why.nodes import on_cluster

_SECONDS = 900.0
_DISK_SECONDS = 0.05
_OTHERS, _MORE = 2, 40
"""Runs beside another one, and how many times as many updates they make, so that they are there
until that one ends."""


class RunFailed(ArtosError):
    """A run of a case ended with another status than 0. ``why`` is the end of what it said."""

    def __init__(self, what: str, why: str) -> None:
        self.what, self.why = what, why
        super().__init__(f"{what}: {why}")


@dataclass(frozen=True)
class Outcome:
    """How many environment steps a second a run made, and what ``artos why`` says of it."""

    rate: float
    said: Report


def outcome(case: Case, more: Settings) -> Outcome:
    """Make the run of a case with other settings, and ask why it is not faster.

    Raises:
        RunFailed: it failed.
    """
    settings = {"total-updates": str(case.updates), **case.settings, **more}
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="artos-why-")))
        pool = stack.enter_context(tempfile.TemporaryDirectory(dir="/dev/shm"))
        environment = {**os.environ, "ARTOS_POOL": f"{pool}/pool"}
        if case.way in (Way.LINK, Way.NODES):
            run = on_cluster(case, settings, home)
        else:
            run = _here(case, settings, home, environment, stack)
        return Outcome(rate_of(run), report(run))


def _here(
    case: Case, settings: Settings, home: Path, environment: Mapping[str, str], stack: ExitStack
) -> Path:
    run = home / "run"
    program = ["-P", "-m", "deploy.cli"]
    if case.way is Way.DISK:
        slow = home if settings.get(DISK) != "fast" else home / "elsewhere"
        program = ["-P", "-m", "evaluation.why.slow_disk", str(slow), str(_DISK_SECONDS)]
    if case.way is Way.BESIDE:
        other = {**case.settings, "total-updates": str(_MORE * case.updates)}
        for number in range(_OTHERS):
            run_of_other = home / f"other{number}"
            stack.enter_context(
                _beside([*program, *_words(case, other)], run_of_other, environment)
            )
    command = [sys.executable, *program, *_words(case, settings), "--run-dir", str(run), "--json"]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=_SECONDS, check=False
    )
    if done.returncode:
        raise RunFailed(case.bottleneck, done.stderr[-2_000:])
    return run


def _words(case: Case, settings: Settings) -> list[str]:
    return ["run", case.workload, *words_of(settings)]


@contextmanager
def _beside(words: Sequence[str], run: Path, environment: Mapping[str, str]) -> Iterator[None]:
    """Another run for as long as the block."""
    process = subprocess.Popen(
        [sys.executable, *words, "--run-dir", str(run)],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait(_SECONDS)


def rate_of(run: Path) -> float:
    """Environment steps a second between the ends of the first and the last update."""
    plan = config_of(run).plan
    assert plan is not None
    rounds, first, last, inside = 0, 0.0, 0.0, 0
    for line in lines_of(run):
        if line.get("by", "").startswith("actor"):
            rounds += bool(line.get("seconds"))
        elif line.get("by", "").startswith("learner"):
            first = first or line["t"]
            if first == line["t"]:
                rounds = 0
            last, inside = line["t"], rounds
    return inside * plan.steps * plan.envs / (last - first) if last > first else 0.0
