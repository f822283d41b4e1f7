"""What figures and reports read of a run's folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
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
from head.records.reading import DamagedRecord
from head.records.summary_file import Ending

_ABOUT = ("algorithm", "env", "workload")
Say = Callable[[str], None]
"""Is told, in words, of something that is left out, and why."""


@dataclass(frozen=True)
class ReadRun:
    """A run, live, over or killed; each file is read when it is first asked for.

    Raises:
        Refused: there is no run.
        DamagedRecord: what is asked for is damaged.
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
            why = error.why if isinstance(error, CheckpointFault) else f"cannot be read: {error}"
            raise DamagedRecord(self.folder / run_config.CONFIG, why) from error

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

    @property
    def size(self) -> tuple[int, int]:
        """The environment steps and updates that it has made."""
        return self.last.steps or self.ending.steps, self.last.updates or self.ending.updates

    @property
    def length(self) -> str:
        """How long it is, in words: updates are told if there are no steps."""
        steps, updates = self.size
        return f"{updates:,} updates" if updates and not steps else f"{steps:,} steps"

    def check(self) -> None:
        """Read all that figures are made of, but for the journal."""
        _ = self.asked, self.ending, self.episodes, self.evaluated, self.history

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
    """Runs that one curve is of, what it is called, and ``what`` they were asked to do.

    ``number`` is that of how it looks, in every figure.
    """

    label: str
    runs: tuple[ReadRun, ...]
    what: str
    number: int = 0

    @property
    def env(self) -> str:
        """The environment of all of them."""
        return self.runs[0].asked.env

    @property
    def who(self) -> str:
        """Whose mean and spread it is, for a caption that can be understood alone."""
        first, *others = self.runs
        called = "" if self.label == self.what else f"{self.label}: "
        if not others:
            named = "" if first.name in self.label else f" (run {first.name})"
            return f"{called}{self.what}, seed {first.asked.seed}, {first.length}{named}"
        seeds = [str(run.asked.seed) for run in self.runs]
        count = "runs, some of one seed" if len({*seeds}) < len(seeds) else "seeds"
        shortest, *_, longest = [r.length for r in sorted(self.runs, key=lambda run: run.size)]
        least = "" if shortest == longest else f"{shortest.partition(' ')[0]} to "
        whose = f"{len(seeds)} {count} ({', '.join(seeds)})"
        return f"{called}{self.what}, {whose}, {least}{longest} each"


def readable(runs: Iterable[ReadRun], say: Say) -> list[ReadRun]:
    """Those whose records can be read; ``say`` is told of each other one, and why.

    Raises:
        Refused: none can be, or something is no run.
    """
    found, damaged = list[ReadRun](), list[str]()
    for run in runs:
        try:
            run.check()
            found.append(run)
        except DamagedRecord as error:
            damaged.append(str(error))
    if damaged and not found:
        raise Refused(damaged)
    for why in damaged:
        say(why)
    return found


def by_run(runs: Iterable[ReadRun]) -> list[Group]:
    """Each run is a curve of its own, called after its folder."""
    runs = [*runs]
    names = _brief({str(run.folder.resolve()) for run in runs})
    return [
        Group(names[str(run.folder.resolve())], (run,), what)
        for run, what in zip(runs, labels([run.settings for run in runs]), strict=True)
    ]


def by_seed(runs: Iterable[ReadRun]) -> list[Group]:
    """Runs that differ in nothing but their seed are one curve.

    A curve is called after the settings that differ between those of its algorithm and environment.
    """
    runs = [*runs]
    same: dict[str, list[ReadRun]] = {}
    for run, label in zip(runs, labels([run.settings for run in runs]), strict=True):
        same.setdefault(label, []).append(run)
    return [
        Group(label, tuple(sorted(group, key=lambda run: run.asked.seed)), label)
        for label, group in same.items()
    ]


def labels(every: Sequence[Mapping[str, str]]) -> list[str]:
    """What runs of these settings are called: the same only if all their settings are.

    Only runs of one algorithm and environment are compared: others have other settings anyway.
    """
    alike: dict[str, list[Mapping[str, str]]] = {}
    whats = [
        " on ".join(filter(None, (each.get("algorithm"), each.get("env")))) or each["workload"]
        for each in every
    ]
    for what, each in zip(whats, every, strict=True):
        alike.setdefault(what, []).append(each)
    differ = {what: _differing(those) for what, those in alike.items()}
    brief = _brief({each.get("workload", "") for each in every})
    told = [{**each, "workload": brief[each.get("workload", "")]} for each in every]
    return [
        " ".join([what, *(f"{name}={each[name]}" for name in differ[what] if name in each)])
        for what, each in zip(whats, told, strict=True)
    ]


def _differing(every: Sequence[Mapping[str, str]]) -> list[str]:
    names = dict.fromkeys(name for each in every for name in sorted(each) if name not in _ABOUT)
    names["workload"] = None
    return [name for name in names if len({each.get(name) for each in every}) > 1]


def _brief(paths: set[str]) -> dict[str, str]:
    """As few of the last parts of each path as tell them apart."""
    parts = {each: Path(each).parts for each in paths}
    most = max(map(len, parts.values()), default=0)
    counted = ({each: "/".join(p[-n:]) for each, p in parts.items()} for n in range(1, most + 1))
    whole = {each: each for each in paths}
    return next((brief for brief in counted if len({*brief.values()}) == len(parts)), whole)
