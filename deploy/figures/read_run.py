"""What figures and reports read of a run's folder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from artos.errors import CheckpointFault, Refused
from artos.protocol.views import Status
from artos.runs import run_config
from artos.runs.run_config import RunConfig
from artos.specs.settings import shown
from deploy.client.copied import goes_on
from deploy.figures.common_part import Floats
from deploy.tracking.rows import NewRows
from head.records import evaluations, summary_file
from head.records.episodes import Episodes
from head.records.evaluations import Evaluated
from head.records.progress_log import status_of
from head.records.summary_file import Ending

_ABOUT = ("algorithm", "env", "workload")


@dataclass(frozen=True)
class ReadRun:
    """A run, live, over or killed; each file is read when it is first asked for.

    Raises:
        Refused: there is no run, or what is asked for is damaged.
    """

    folder: Path

    @cached_property
    def name(self) -> str:
        """The name of its folder."""
        return self.folder.resolve().name

    @cached_property
    def config(self) -> dict[str, Any]:
        """Its ``config.json``."""
        return self._both[0]

    @cached_property
    def asked(self) -> RunConfig:
        """The part of it that is checked."""
        return self._both[1]

    @cached_property
    def _both(self) -> tuple[dict[str, Any], RunConfig]:
        try:
            return run_config.read(self.folder, RunConfig)
        except FileNotFoundError as error:
            raise Refused([f"{self.folder}: there is no run; give the folder of one"]) from error
        except (OSError, CheckpointFault) as error:
            raise Refused([f"{self.folder}: its records are damaged: {error}"]) from error

    @property
    def summary(self) -> dict[str, Any]:
        """Its ``summary.json``, empty where there is none."""
        return self._summary[0]

    @property
    def ending(self) -> Ending:
        """The part of it that is checked."""
        return self._summary[1]

    @cached_property
    def _summary(self) -> tuple[dict[str, Any], Ending]:
        return summary_file.read(self.folder) or ({}, Ending(""))

    @cached_property
    def outcome(self) -> str:
        """How it ended, or that it goes on."""
        return "live" if goes_on(self.folder) else self.ending.outcome or "killed"

    @cached_property
    def episodes(self) -> Episodes:
        """All its episodes."""
        return Episodes.read(self.folder / "episodes.csv")

    @cached_property
    def evaluated(self) -> list[Evaluated]:
        """Its evaluations, in order."""
        return evaluations.read(self.folder / "evaluations.csv")

    @cached_property
    def history(self) -> list[Status]:
        """Every row of its progress."""
        rows, found = NewRows(self.folder / "progress.csv", status_of), list[Status]()
        while more := rows.read():
            found += more
        return found

    @property
    def last(self) -> Status:
        """The newest of them."""
        return self.history[-1] if self.history else Status()

    def seconds_at(self, steps: Floats) -> Floats:
        """Seconds of training after so many environment steps, by its progress."""
        at = [0.0, *(float(status.steps) for status in self.history)]
        # Where a run goes on without steps, its last ones were made at the first of such rows.
        before = np.nextafter(steps, -np.inf)
        return np.interp(before, at, [0.0, *(status.seconds for status in self.history)])

    @property
    def settings(self) -> dict[str, str]:
        """What it was asked to do, but for the seed, in words."""
        named = {name: shown(value) for name, value in self.asked.settings.items()}
        asked = self.asked
        of = {"algorithm": asked.algorithm, "env": asked.env}
        # In two folders one name may be two workloads; those of ARTOS are nowhere.
        here = Path(asked.folder) if ":" in asked.workload else Path()
        return of | named | {"workload": str(here / asked.workload)}


@dataclass(frozen=True)
class Group:
    """Runs that one curve is of, and what it is called."""

    label: str
    runs: tuple[ReadRun, ...]

    @property
    def who(self) -> str:
        """Whose mean and spread it is, for a caption."""
        if len(self.runs) == 1:
            return f"{self.label}: {self.runs[0].name}"
        seeds = [str(run.asked.seed) for run in self.runs]
        count = "runs, some of one seed" if len({*seeds}) < len(seeds) else "seeds"
        return f"{self.label}: {len(seeds)} {count} ({', '.join(seeds)})"


def by_run(runs: Iterable[ReadRun]) -> list[Group]:
    """Each run is a curve of its own."""
    return [Group(run.name, (run,)) for run in runs]


def by_seed(runs: Iterable[ReadRun]) -> list[Group]:
    """Runs that differ in nothing but their seed are one curve.

    A curve is called after the settings that differ between curves.
    """
    runs = [*runs]
    same: dict[str, list[ReadRun]] = {}
    for run, label in zip(runs, labels([run.settings for run in runs]), strict=True):
        same.setdefault(label, []).append(run)
    return [
        Group(label, tuple(sorted(group, key=lambda run: run.asked.seed)))
        for label, group in same.items()
    ]


def labels(every: Sequence[Mapping[str, str]]) -> list[str]:
    """What runs of these settings are called: the same only if all their settings are.

    Workloads are named only if runs of one algorithm and environment differ in them.
    """
    whats = [f"{each.get('algorithm', '')} on {each.get('env', '')}" for each in every]
    names = dict.fromkeys(name for each in every for name in sorted(each) if name not in _ABOUT)
    differ = [name for name in names if len({each.get(name) for each in every}) > 1]
    workloads = {(what, each.get("workload")) for what, each in zip(whats, every, strict=True)}
    if len(workloads) > len({*whats}):
        differ.append("workload")
    brief = _brief({each.get("workload", "") for each in every})
    told = [{**each, "workload": brief[each.get("workload", "")]} for each in every]
    return [
        " ".join([what, *(f"{name}={each[name]}" for name in differ if name in each)])
        for what, each in zip(whats, told, strict=True)
    ]


def _brief(workloads: set[str]) -> dict[str, str]:
    """As few of the last parts of each path as tell them apart."""
    parts = {each: Path(each).parts for each in workloads}
    most = max(map(len, parts.values()), default=0)
    counted = ({each: "/".join(p[-n:]) for each, p in parts.items()} for n in range(1, most + 1))
    whole = {each: each for each in workloads}
    return next((brief for brief in counted if len({*brief.values()}) == len(parts)), whole)
