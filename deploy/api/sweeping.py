"""``artos.sweep``: runs over a grid of settings and several seeds, as a table and a figure."""

from __future__ import annotations

import csv
import itertools
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from artos.errors import ArtosError, Refused
from artos.specs.named import file_of, objects_named
from artos.specs.settings import shown
from artos.system.durable import write_durably
from artos.system.importing import stop_if_imported
from artos.system.regular_file import contents
from artos.system.usable_cpus import usable_cpus
from deploy.api.arguments import asked, faults_of, typed
from deploy.api.cluster import Cluster
from deploy.api.running import Result, RunFailed, run_named
from deploy.api.sweep_on_cluster import OnCluster
from deploy.api.sweep_places import begun, done_before, forget_all, room

_FILES = _TABLE, _FIGURE, _SAME = "sweep.csv", "sweep.png", "sweep.json"
_ASIDE = ("deadline", "weight", "priority", "where", "placement", "track")
"""Settings that change no result of a run."""
_PACKAGES = "packages"
_NOT_HERE = {
    "seed": "give seeds=, how many",
    "run_dir": "give folder=, that of all runs",
    "on_progress": "give say=, which is told of each run that is over",
    "inline": "the runs of a sweep have processes",
}
"""Arguments of a run that a sweep does not take, and what to do."""
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
    """What it failed with, or why its files are not in ``folder``."""


class Sweep(msgspec.Struct, frozen=True):
    """A sweep that is over: its runs, the most successful settings first, and its files."""

    folder: str
    table: str
    figure: str
    runs: tuple[SweepRun, ...]


def without_files(named: Sequence[str]) -> Sequence[str]:
    """These runs without a sweep's table and figure, which ``SWEEP/*`` names, too.

    All of them if there is nothing else among them.
    """
    return [name for name in named if Path(name).name not in _FILES] or named


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
    result and does not end the others. Runs of the same sweep that are in ``folder`` already are
    not repeated, so it goes on where it was stopped, and may get more values and seeds.

    Raises:
        Refused: the grid is empty or not of values, ``folder`` has runs of another sweep, or what
            the first runs are refused for. One that is refused later has failed.
    """
    stop_if_imported()
    given = {
        "grid": grid, "seeds": seeds, "at_once": at_once, "folder": folder, "cluster": cluster,
        "say": say,
    }  # fmt: skip
    others = {name: value for name, value in settings.items() if name not in _NOT_HERE}
    named = asked(workload, sys._getframe(1).f_globals, given, others)  # the caller's names
    return sweep_named(
        named, dict(grid or {}), seeds, at_once, Path(folder), cluster, say, settings
    )


def sweep_named(
    workload: str, grid: Mapping[str, Sequence[Any]], seeds: int, at_once: int, folder: Path,
    cluster: Cluster | None, say: Say, settings: Mapping[str, Any],
) -> Sweep:  # fmt: skip
    """``sweep`` of the workload of that name; raises what ``sweep`` raises."""
    faults = [f"{name}: {do}" for name, do in _NOT_HERE.items() if name in {*settings, *grid}]
    todo = _combinations(grid, range(1, seeds + 1), faults)
    if seeds < 1:
        faults.append(f"--seeds {seeds}: it must be 1 or more")
    if at_once < 0:
        faults.append(f"--at-once {at_once}: it must not be negative")
    if faults:
        raise Refused(faults)
    run = OnCluster(cluster) if cluster else _here
    stopping, asking = threading.Event(), threading.Lock()
    asked, done, refusals = list[str](), list[SweepRun](), list[Refused]()

    def one(name: str, chosen: dict[str, Any], seed: int) -> None:
        with asking:
            if stopping.is_set() or 0 < len(refusals) == len(asked):  # as the others will be
                return
            asked.append(name)
        about = SweepRun(name, chosen, seed, str(folder / name))
        try:
            place = folder / name
            result, why = run(workload, {**settings, **chosen}, seed, place, stopping)
            mean, steps = result.mean_return_100, result.steps
            about = msgspec.structs.replace(
                about, outcome=result.outcome, mean_return_100=mean, steps=steps, why=why
            )
        except (RunFailed, Refused) as error:
            why = error.why if isinstance(error, RunFailed) else str(error)
            about = msgspec.structs.replace(about, outcome="failed", why=why)
            refusals.extend([error] if isinstance(error, Refused) else [])
        done.append(about)
        mean_text = "-" if about.mean_return_100 is None else f"{about.mean_return_100:.1f}"
        why = f" ({about.why})" if about.why else ""
        say(f"{len(done)}/{len(todo)} {name}: {about.outcome}, mean return {mean_text}{why}")

    most = len(todo) if cluster else at_once or max(1, len(usable_cpus()) // 2)
    with _claimed(folder, _same(workload, settings), [name for name, *_ in todo]):
        with ThreadPoolExecutor(min(most, len(todo))) as threads:
            futures = [threads.submit(one, *each) for each in todo]
            try:
                wait(futures, return_when=FIRST_EXCEPTION)
            finally:
                if not all(future.done() for future in futures):
                    stopping.set()
        errors = [error for future in futures if (error := future.exception()) is not None]
        if len(refusals) == len(asked):
            errors += refusals[:1]
        if errors:  # others were stopped because of the first one
            raise min(errors, key=lambda error: isinstance(error, KeyboardInterrupt))
    table, figure = folder / _TABLE, folder / _FIGURE
    runs = tuple(_ranked(done))
    _write(table, runs)
    _draw(figure, runs)
    return Sweep(str(folder), str(table), str(figure), runs)


def _same(workload: str, settings: Mapping[str, Any]) -> dict[str, str]:
    """What all runs of a sweep have in common, also the files that their settings name."""
    files = [Path(workload.rpartition(":")[0])]
    files += filter(None, (file_of(named, Path()) for named in objects_named(settings)))
    files += [Path(settings[_PACKAGES])] if settings.get(_PACKAGES) else []
    codes = {str(f): f"sha256 {sha256(contents(f)).hexdigest()[:12]}" for f in files if f.is_file()}
    chosen = {name: typed(name, value) for name, value in settings.items() if name not in _ASIDE}
    return {"workload": workload, **chosen, **codes}


@contextmanager
def _claimed(folder: Path, same: Mapping[str, str], names: Sequence[str]) -> Iterator[None]:
    """Have a folder be that of the sweep whose runs have ``same`` in common, from this block on.

    If the block raises before any run of those ``names`` has begun, it is what it was.

    Raises:
        Refused: it is that of another one, has runs of which that is not known, or cannot be made.
    """
    kept, made, new = folder / _SAME, not folder.exists(), False
    try:
        folder.mkdir(parents=True, exist_ok=True)
        before = msgspec.json.decode(contents(kept), type=dict[str, str])
    except FileNotFoundError:
        if any((each / "config.json").exists() for each in folder.iterdir()):
            raise Refused([_OTHERS.format(folder)]) from None
        forget_all(folder)  # a folder that was emptied still has those
        write_durably(kept, msgspec.json.format(msgspec.json.encode(same)))
        before, new = dict(same), True
    except msgspec.MsgspecError:
        before = {}
    except OSError as fault:
        raise Refused([f"--folder {folder}: {fault.strerror}"]) from fault
    if changed := [name for name in {**before, **same} if before.get(name) != same.get(name)]:
        words = ", ".join(f"{name} was {before.get(name, 'not given')}" for name in changed)
        raise Refused([f"--folder {folder}: it is of another sweep ({words}): name another one"])
    try:
        yield
    except BaseException:
        if new and not any(begun(folder / name) for name in names):
            kept.unlink(missing_ok=True)
            if made:
                with suppress(OSError):
                    folder.rmdir()
        raise


_OTHERS = (
    "--folder {}: it has other runs, or those of a sweep that an earlier ARTOS began: name another "
    "folder"
)


def _combinations(
    grid: Mapping[str, Sequence[Any]], seeds: Sequence[int], faults: list[str]
) -> list[tuple[str, dict[str, Any], int]]:
    """The runs, each with a folder of its own; what keeps them from that is added to ``faults``."""
    choices: dict[str, Sequence[Any]] = {}
    for name, given in grid.items():
        each = given.tolist() if hasattr(given, "tolist") else given  # an array's
        if isinstance(each, str | bytes) or not isinstance(each, Sequence):
            faults.append(f"--grid {name}: give a list of values, not {given!r}")
            continue
        choices[name] = each
        if not each:
            faults.append(f"--grid {name}: give one value or more")
        faults += [fault for value in each for fault in faults_of({name: value})]
        if len(set(map(shown, each))) < len(each):
            faults.append(f"--grid {name}: {_TWICE}")
    runs = []
    for values in itertools.product(*choices.values()):
        chosen = dict(zip(choices, values, strict=True))
        words = "-".join(f"{_plain(name)}={_plain(shown(value))}" for name, value in chosen.items())
        if len(words.encode()) > _LONGEST:
            words = f"{words[:_KEPT]}~{sha256(words.encode()).hexdigest()[:16]}"
        front = f"{words}-" if words else ""
        runs += [(f"{front}seed{seed}", chosen, seed) for seed in seeds]
    return runs


_LONGEST, _KEPT = 200, 50
"""Bytes of a folder's name that say what is chosen, of the 255 that file systems allow; and how
many letters are kept of a longer one."""
_TWICE = (
    "a value is given twice (values that are lists: in Python, grid={'hidden': [[64, 64], ...]})"
)


def _plain(words: str) -> str:
    """Words as a part of a folder's name, which is different for different words."""
    return "".join(
        each if each.isalnum() or each in ".-_," else quote(each, safe="") for each in words
    )


Runner = Callable[[str, Mapping[str, Any], int, Path, threading.Event], tuple[Result, str]]
"""Runs a workload, with these settings and seed, in this folder, until told to stop, unless it is
done there: how it ended, and why its files are not there."""


def _here(
    workload: str, settings: Mapping[str, Any], seed: int, place: Path, stopping: threading.Event
) -> tuple[Result, str]:
    if before := done_before(place):
        return before, ""
    return run_named(workload, settings, seed, room(place), stopping=stopping), ""


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
            every = [ReadRun(Path(run.folder)) for run in each]
            there = [run for run in every if len(run.episodes)]
            some = f" ({len(there)} of {len(every)} runs)" if len(there) < len(every) else ""
            curves.append(curve_of(f"{words}{some}", there))
    found, beside = [*filter(None, curves)], "mean return of 100 episodes; band: lowest to highest"
    made = drawn(lambda axes: draw_curves(axes, found, "environment steps", beside), ("png",))
    path.write_bytes(made["png"])
