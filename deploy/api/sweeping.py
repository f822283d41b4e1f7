"""``artos.sweep``: runs over a grid of settings and several seeds, as a table and a figure."""

from __future__ import annotations

import csv
import itertools
import re
import secrets
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from artos.errors import ArtosError, Refused, RunExists
from artos.specs.settings import shown
from artos.system.importing import stop_if_imported
from artos.system.usable_cpus import usable_cpus
from deploy.api.cluster import Cluster
from deploy.api.naming import name_of
from deploy.api.running import Result, RunFailed, run_named
from head.records import summary_file
from head.records.run_lock import is_live

_TABLE, _FIGURE = "sweep.csv", "sweep.png"
Say = Callable[[str], None]


class SweepRun(msgspec.Struct, frozen=True):
    """A run of a sweep."""

    name: str
    settings: dict[str, Any]
    """Those of the grid."""
    seed: int
    folder: str
    outcome: str = ""
    mean_return_100: float | None = None
    steps: int = 0
    why: str = ""
    """What it failed with."""


class Sweep(msgspec.Struct, frozen=True):
    """A sweep that is over: its runs, the most successful settings first, and its files."""

    folder: str
    table: str
    figure: str
    runs: tuple[SweepRun, ...]


def sweep(
    workload: Any,
    *,
    grid: Mapping[str, Sequence[Any]] | None = None,
    seeds: int = 3,
    at_once: int = 0,
    folder: str | Path = "sweep",
    cluster: Cluster | None = None,
    say: Say = lambda text: None,
    **settings: Any,
) -> Sweep:
    """Run every combination of the ``grid``'s values with seeds 1 to ``seeds``.

    On this machine, ``at_once`` runs at a time (0: one for each two CPUs); with a ``cluster`` they
    are all submitted, and its queue decides. Each run has a folder in ``folder``, which also gets a
    table and a figure with the curves and their spread over seeds. A run that fails is told in the
    result and does not end the others; runs that are in ``folder`` already are not repeated.

    Raises:
        Refused: the grid is empty or not of values, or what a run would be refused for.
    """
    stop_if_imported()
    named = name_of(workload, sys._getframe(1).f_globals)  # the caller's names
    return sweep_named(
        named, dict(grid or {}), seeds, at_once, Path(folder), cluster, say, settings
    )


def sweep_named(
    workload: str, grid: Mapping[str, Sequence[Any]], seeds: int, at_once: int, folder: Path,
    cluster: Cluster | None, say: Say, settings: Mapping[str, Any],
) -> Sweep:  # fmt: skip
    """``sweep`` of the workload of that name; raises what ``sweep`` raises."""
    faults = [f"--grid {name}: give one value or more" for name, each in grid.items() if not each]
    if seeds < 1:
        faults.append(f"--seeds {seeds}: it must be 1 or more")
    if at_once < 0:
        faults.append(f"--at-once {at_once}: it must not be negative")
    if faults:
        raise Refused(faults)
    todo = [*_combinations(grid, range(1, seeds + 1))]
    made = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        raise Refused([f"--folder {folder}: {fault.strerror}"]) from fault
    run = _on(cluster) if cluster else _here
    stopping = threading.Event()
    done: list[SweepRun] = []

    def one(name: str, chosen: dict[str, Any], seed: int) -> None:
        if stopping.is_set():
            return
        about = SweepRun(name, chosen, seed, str(folder / name))
        try:
            if (result := _before(folder / name)) is None:
                _make_room(folder / name)
                result = run(workload, {**settings, **chosen}, seed, folder / name, stopping)
            mean, steps = result.mean_return_100, result.steps
            about = msgspec.structs.replace(
                about, outcome=result.outcome, mean_return_100=mean, steps=steps
            )
        except RunFailed as failed:
            about = msgspec.structs.replace(about, outcome="failed", why=failed.why)
        done.append(about)
        mean_text = "-" if about.mean_return_100 is None else f"{about.mean_return_100:.1f}"
        say(f"{len(done)}/{len(todo)} {name}: {about.outcome}, mean return {mean_text}")

    most = len(todo) if cluster else at_once or max(1, len(usable_cpus()) // 2)
    with ThreadPoolExecutor(min(most, len(todo))) as threads:
        futures = [threads.submit(one, *each) for each in todo]
        try:
            wait(futures, return_when=FIRST_EXCEPTION)
        finally:
            if not all(future.done() for future in futures):
                stopping.set()
    errors = [error for future in futures if (error := future.exception()) is not None]
    if errors:  # others were stopped because of the first one
        if made:
            with suppress(OSError):  # where nothing was started nothing is in it
                folder.rmdir()
        raise min(errors, key=lambda error: isinstance(error, KeyboardInterrupt))
    table, figure = folder / _TABLE, folder / _FIGURE
    runs = tuple(_ranked(done))
    _write(table, runs)
    _draw(figure, runs)
    return Sweep(str(folder), str(table), str(figure), runs)


def _combinations(
    grid: Mapping[str, Sequence[Any]], seeds: Sequence[int]
) -> Iterator[tuple[str, dict[str, Any], int]]:
    for values in itertools.product(*grid.values()):
        chosen = dict(zip(grid, values, strict=True))
        words = "-".join(f"{name}={shown(value)}" for name, value in chosen.items())
        plain = "".join(each if each.isalnum() or each in "=.-_" else "_" for each in words)
        for seed in seeds:
            yield f"{plain}-seed{seed}".lstrip("-"), chosen, seed


Runner = Callable[[str, Mapping[str, Any], int, Path, threading.Event], Result]


def _here(
    workload: str, settings: Mapping[str, Any], seed: int, place: Path, stopping: threading.Event
) -> Result:
    return run_named(workload, settings, seed, place, stopping=stopping)


def _on(cluster: Cluster) -> Runner:
    lock = threading.Lock()  # a client sends one request at a time

    def run(
        workload: str, settings: Mapping[str, Any], seed: int, place: Path,
        stopping: threading.Event,
    ) -> Result:  # fmt: skip
        name = f"{place.parent.name}-{place.name}"
        plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._")[:100]
        there = f"{plain or 'run'}-{secrets.token_hex(4)}"  # others have sweeps of that name, too
        with lock:
            submitted = cluster.submit(workload, seed=seed, run_dir=there, **settings)
        while True:
            with lock:
                over = cluster.over(submitted)
            if over:
                break
            if stopping.wait(1.0):
                with lock:
                    cluster.stop(submitted)
                raise KeyboardInterrupt
        with lock:
            try:
                result = cluster.wait(submitted)
            except RunFailed:
                with suppress(Refused):  # it may have failed before it had files
                    cluster.get(submitted, place)
                raise
            cluster.get(submitted, place)
            return result

    return run


def _before(folder: Path) -> Result | None:
    """The result of a run of an earlier sweep, if it is done."""
    found = summary_file.read(folder)
    return Result(folder, found[0]) if found and found[1].outcome == "done" else None


def _make_room(place: Path) -> None:
    """Before a run is repeated: what an earlier one has left goes beside it."""
    if is_live(place):
        raise RunExists(str(place), live=True)
    if place.exists():
        others = (place.with_name(f"{place.name}.{number}") for number in itertools.count(1))
        place.rename(next(other for other in others if not other.exists()))


def _ranked(runs: Sequence[SweepRun]) -> list[SweepRun]:
    """Settings with the highest mean return first, and their runs by seed."""
    groups = by_settings(runs)

    def mean(each: Sequence[SweepRun]) -> float:
        found = [run.mean_return_100 for run in each if run.mean_return_100 is not None]
        return sum(found) / len(found) if found else float("-inf")

    best = sorted(groups.values(), key=mean, reverse=True)
    return [run for each in best for run in sorted(each, key=lambda run: run.seed)]


def by_settings(runs: Sequence[SweepRun]) -> dict[str, list[SweepRun]]:
    """Runs by their settings, in words."""
    groups: dict[str, list[SweepRun]] = {}
    for run in runs:
        words = ", ".join(f"{name}={shown(value)}" for name, value in run.settings.items())
        groups.setdefault(words or "all", []).append(run)
    return groups


def _write(path: Path, runs: Sequence[SweepRun]) -> None:
    names = list(dict.fromkeys(name for run in runs for name in run.settings))
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*names, "seed", "outcome", "mean_return_100", "steps", "folder"])
        for run in runs:
            chosen = [shown(run.settings[name]) for name in names]
            mean = "" if run.mean_return_100 is None else run.mean_return_100
            writer.writerow([*chosen, run.seed, run.outcome, mean, run.steps, run.folder])


def _draw(path: Path, runs: Sequence[SweepRun]) -> None:
    from deploy.figures.drawing import drawn  # noqa: PLC0415
    from deploy.figures.questions import curve_of, draw_curves  # noqa: PLC0415
    from deploy.figures.read_run import ReadRun  # noqa: PLC0415

    curves = []
    for words, each in by_settings(runs).items():
        with suppress(ArtosError):  # a damaged record, which `artos status` tells of
            curves.append(curve_of(words, [ReadRun(Path(run.folder)) for run in each]))
    found, beside = [*filter(None, curves)], "mean return of 100 episodes; band: all seeds"
    made = drawn(lambda axes: draw_curves(axes, found, "environment steps", beside), ("png",))
    path.write_bytes(made["png"])
