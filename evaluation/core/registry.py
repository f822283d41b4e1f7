"""Finds the benchmarks of this package and runs them: what ``artos bench NAME`` becomes."""

from __future__ import annotations

import argparse
import pkgutil
import re
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path

import msgspec

import evaluation
from artos.errors import Refused
from artos.runs.exit_status import ExitStatus
from artos.system.closest import closest
from deploy.cli import bench
from deploy.cli.common import print_json
from deploy.cli.entry import reported
from deploy.cli.parser import Parser
from evaluation.core.benchmark import Benchmark
from evaluation.core.progress import Asked, Progress, keeping
from evaluation.core.readme_rows import lines
from evaluation.core.report import Report, missed, print_table, read_json, write_json

FOLDER = Path("bench-results")
REPEATS = 3
ALL, SEEDS, PAPER, README = "all", "seeds", "paper", "readme"
SEVERAL = (ALL, SEEDS, PAPER, README)
"""All that measure speed and what is held, those whose repetitions are seeds, those of the paper,
which take a day, and those that the rows of the README come from."""


def _discovered() -> dict[str, Benchmark]:
    """The ``BENCHMARK`` of every module ``bench``, by its package's name, and the paper's.

    Those of the paper are named after its tables and figures: ``paper-table-6``.
    """
    packages = [each.name for each in pkgutil.iter_modules(evaluation.__path__) if each.ispkg]
    folder = Path(evaluation.__path__[0])
    found = {
        name: import_module(f"evaluation.{name}.bench").BENCHMARK.within(f"evaluation/{name}")
        for name in packages
        if (folder / name / "bench.py").is_file()
    }
    redone = sorted([*(folder / PAPER).glob("table_*.py"), *(folder / PAPER).glob("figure_*.py")])
    return found | {
        f"{PAPER}-{file.stem.replace('_', '-')}": import_module(
            f"evaluation.{PAPER}.{file.stem}"
        ).BENCHMARK.within(f"evaluation/{PAPER}")
        for file in redone
    }


BENCHMARKS = _discovered()


def run(
    name: str,
    json_path: Path | None = None,
    quick: bool = False,
    repeats: int = REPEATS,
    resume: bool = False,
    task: str = "",
) -> int:
    """Run a benchmark: print its table, write JSON and figures; returns 0 if every goal holds.

    The JSON goes to ``json_path`` (default: ``bench-results/NAME.json``, or ``NAME-quick.json``),
    the figures next to it as PNG. The names of ``SEVERAL`` run several and add each one's name to
    the file's. A missed goal gives 1, except in a ``quick`` run, whose figures mean
    nothing. After every case what has been measured is written to ``NAME.part``; ``resume`` goes on
    from there. ``task`` is the only one to measure, by a part of its name.

    Raises:
        Refused: there is no benchmark or task of this name, or ``repeats`` is below 1.
        Stale: what is to be gone on with is of another commit, size, code or machine. Of several,
            those that cannot be measured are told instead.
    """
    if repeats < 1:
        raise Refused([f"--repeats must be at least 1, not {repeats}"])
    if (several := of(name)) and not task:
        return _run_all(several, json_path, quick, repeats, resume)
    benchmark, path = chosen(name, task), json_path or file_of(name, task, quick)
    repeats = 1 if quick else max(repeats, benchmark.least)
    # Before it runs: what is edited during the run was not measured.
    asked = Asked.now(benchmark.measures, repeats, quick)
    part = path.with_suffix(".part")
    kept = Progress.of(part, asked) if resume else Progress(part, asked)
    if kept.state.over and path.exists():
        _say(f"{name}: measured already, {path}")
        report = read_json(path)
    else:
        with keeping(kept):
            report = benchmark.measure(repeats, quick, _say).report()
        kept.end()
        report = msgspec.structs.replace(
            report,
            commit=asked.commit,
            sources=asked.sources,
            seconds=kept.state.seconds,
            quick=quick,
        )
        write_json(report, path)
    figures = benchmark.draw(report, path)
    print_table(report)
    print(*(path, *figures), sep="\n")
    return 0 if quick or not missed(report) else 1


def chosen(name: str, task: str = "") -> Benchmark:
    """The benchmark of this name, or its part that measures the one task with this in its name.

    Tasks whose names begin with the text come first.

    Raises:
        Refused: there is no such benchmark, none such task, or more than one.
    """
    if name not in BENCHMARKS and not (task and of(name)):
        known = (*BENCHMARKS, *SEVERAL)
        hint = closest(name, known)
        raise Refused([f"unknown benchmark {name!r}{hint} (have {', '.join(known)})"])
    if not task:
        return BENCHMARKS[name]
    parts = BENCHMARKS[name].parts if name in BENCHMARKS else {}
    if not parts:
        raise Refused([f"--task {task}: {name} measures no single tasks: leave it out"])
    low = task.lower()
    found = [part for part in parts if part.lower().startswith(low)]
    found = found or [part for part in parts if low in part.lower()]
    if len(found) != 1:
        which = "none of its tasks has" if not found else f"{len(found)} of its tasks have"
        named = "; ".join(found or parts)
        raise Refused([f"--task {task}: {which} that in the name: give one of: {named}"])
    return parts[found[0]]


def file_of(name: str, task: str = "", quick: bool = False) -> Path:
    """Where a report goes by default."""
    words = re.findall(r"\w+", task.lower())
    return FOLDER / f"{'-'.join((name, *words, *['quick'] * quick))}.json"


def _run_all(
    names: Sequence[str], json_path: Path | None, quick: bool, repeats: int, resume: bool
) -> int:
    """One after the other; what cannot be measured keeps nobody else from it."""
    statuses, faults = list[int](), list[str]()
    for name in names:
        try:
            statuses.append(run(name, _beside(json_path, name), quick, repeats, resume))
        except Exception as error:
            faults.append(f"{name} could not be measured: {type(error).__name__}: {error}")
            _say(faults[-1])
            statuses.append(ExitStatus.FAILED)
    if faults:
        print(*faults, sep="\n")
    return max(statuses)


def written(name: str, task: str = "", quick: bool = False) -> Report | dict[str, Report]:
    """The report last written to the default file; of several the reports by name."""
    if several := of(name):
        files = {one: file_of(one, quick=quick) for one in several}
        return {one: read_json(file) for one, file in files.items() if file.exists()}
    return read_json(file_of(name, task, quick))


def of(name: str) -> list[str]:
    """The benchmarks that a name of several stands for; none if it is that of one."""
    if name == README:
        return [*dict.fromkeys(line.benchmark for line in lines())]
    redone = [one for one in BENCHMARKS if one.startswith(f"{PAPER}-")]
    seeds = [one for one, benchmark in BENCHMARKS.items() if benchmark.least > 1]
    others = [one for one in BENCHMARKS if one not in (*redone, *seeds)]
    return {PAPER: redone, SEEDS: seeds, ALL: others}.get(name, [])


def _beside(path: Path | None, name: str) -> Path | None:
    return path and path.with_stem(f"{path.stem}-{name}")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """What ``artos bench`` becomes: runs a benchmark, or lists all."""
    return reported(_options, arguments)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = Parser(prog="artos bench", description="Benchmarks: ARTOS and other libraries.")
    bench.add_arguments(parser)
    parser.set_defaults(command=_bench, starts=True)
    return parser.parse_args(arguments)


def _bench(options: argparse.Namespace) -> int:
    if options.name is None:
        names = (*BENCHMARKS, *SEVERAL)
        if given := [word for word in bench.words_of(options) if word != f"--json={bench.PRINTED}"]:
            raise Refused(
                [f"{' '.join(given)}: say first what to measure: artos bench NAME "
                 f"{' '.join(given)} (NAME: {', '.join(names)})"]
            )  # fmt: skip
        if options.json:
            print_json({"benchmarks": names})
        else:
            print(*names, sep="\n")
        return ExitStatus.DONE
    repeats = REPEATS if options.repeats is None else options.repeats
    if options.json != bench.PRINTED:
        return run(options.name, options.json, options.quick, repeats, options.resume, options.task)
    with redirect_stdout(sys.stderr):
        status = run(options.name, None, options.quick, repeats, options.resume, options.task)
    print_json(written(options.name, options.task, options.quick))
    return status


if __name__ == "__main__":
    sys.exit(main())
