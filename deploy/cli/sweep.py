"""``artos sweep``: runs over a grid of settings and several seeds."""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from artos.errors import Refused
from artos.runs.exit_status import ExitStatus
from artos.system.logging_setup import to_stderr
from deploy.cli.common import (
    add_placement,
    add_workload,
    columns,
    given_deadline,
    pairs,
    print_json,
    settings_of,
    workload_of,
)
from deploy.cli.parser import Parser, whole

if TYPE_CHECKING:
    from deploy.api.sweeping import Sweep


def add_to(parser: Parser) -> None:
    """Add the flags; those of the runs are those of ``artos run``."""
    add_workload(parser, seeds=True)
    parser.add_argument("--seeds", type=whole, default=3, metavar="N", help="1 to N; default: 3")
    parser.add_argument(
        "--grid",
        action="append",
        default=[],
        metavar="KEY=VALUE,...",
        help="values of a setting, e.g. --grid lr=1e-3,3e-4; may be repeated",
    )
    parser.add_argument(
        "--at-once",
        type=whole,
        default=0,
        metavar="N",
        help="runs at a time on this machine; default: one for each two CPUs",
    )
    parser.add_argument(
        "--folder", type=Path, default=Path("sweep"), metavar="DIR",
        help="of the runs, the table and the figure; default: sweep. The same sweep again goes on "
        "there",
    )  # fmt: skip
    parser.add_argument(
        "--head", metavar="ADDRESS", help="submit the runs there (needs --keys, or ARTOS_KEYS)"
    )
    parser.add_argument("--keys", type=Path, metavar="DIR", help="default: $ARTOS_KEYS")
    add_placement(parser)
    parser.set_defaults(command=sweep, starts=True)


def sweep(options: argparse.Namespace) -> int:
    """``artos sweep``: every combination of the grid, with every seed."""
    from artos.specs.settings import convert  # noqa: PLC0415
    from deploy.api.cluster import Cluster  # noqa: PLC0415
    from deploy.api.sweeping import sweep_named  # noqa: PLC0415

    given = {name: text.split(",") for name, text in pairs("--grid", options.grid).items()}
    empty = [name for name, values in given.items() if not all(values)]
    faults = [f"--grid {name}: a value is empty" for name in empty]
    if options.head and options.at_once:
        faults.append("--at-once is of this machine: with --head the cluster's queue decides")
    placed = _placed(options)
    if placed and not options.head:
        flags = ", ".join(f"--{name}" for name in placed)
        faults.append(f"{flags}: only of runs that a cluster has: name one with --head")
    if faults:
        raise Refused(faults)
    grid = {name: [convert(name, value, Any) for value in values] for name, values in given.items()}
    with Cluster(options.head, options.keys) if options.head else nullcontext() as cluster:
        found = sweep_named(
            workload_of(options), grid, options.seeds, options.at_once, options.folder, cluster,
            lambda said: to_stderr(f"artos: {said}"),
            settings_of(options) | {"deadline": given_deadline(options)} | placed,
        )  # fmt: skip
    if options.json:
        print_json(found.runs)
    else:
        print(text(found))
    failed = any(run.outcome == "failed" for run in found.runs)
    return ExitStatus.FAILED if failed else ExitStatus.DONE


def _placed(options: argparse.Namespace) -> dict[str, Any]:
    """Where the runs are to be on the cluster and with what packages, as far as it was said."""
    given = {name: getattr(options, name) for name in ("placement", "where", "packages")}
    return {name: value for name, value in given.items() if value}


def text(found: Sweep) -> str:
    """The table: for each choice of settings the mean over seeds, the spread, and what failed."""
    from deploy.api.sweeping import by_settings  # noqa: PLC0415

    titles = ("settings", "runs", "mean return", "from", "to", "failed")
    rows: list[tuple[str, ...]] = [titles]
    for words, runs in by_settings(found.runs).items():
        means = [run.mean_return_100 for run in runs if run.mean_return_100 is not None]
        numbers = (sum(means) / len(means), min(means), max(means)) if means else ()
        cells = [f"{number:.1f}" for number in numbers] or ["-", "-", "-"]
        failed = sum(run.outcome == "failed" for run in runs)
        rows.append((words, str(len(runs)), *cells, str(failed or "")))
    return "\n".join([*columns(rows), f"curves: {found.figure}"])
