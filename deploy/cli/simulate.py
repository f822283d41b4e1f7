"""``artos simulate``: what a cluster of another size would do with given workloads."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from artos.errors import Refused
from artos.runs.exit_status import ExitStatus
from artos.system.printable import printable
from deploy.cli.common import add_json, columns, print_json
from deploy.cli.parser import Parser, whole

if TYPE_CHECKING:
    from deploy.simulation.report import Forecast

_MOST_SHOWN = 20


def add_to(parser: Parser) -> None:
    """Add the flags of ``artos simulate``."""
    parser.add_argument("--nodes", type=whole, default=1, metavar="N", help="worker nodes; 1")
    parser.add_argument("--slots", type=whole, default=1, metavar="S", help="CPU slots of each; 1")
    parser.add_argument(
        "--runs-per-slot", type=whole, default=1, metavar="N", help="as of artos worker; 1"
    )
    parser.add_argument(
        "--devices",
        type=whole,
        default=0,
        metavar="D",
        help="devices that learners share; 0: learners wait for none",
    )
    parser.add_argument(
        "--journal",
        type=Path,
        action="append",
        nargs="+",
        default=[],
        metavar="RUN",
        help="folders of finished runs, which arrive together",
    )
    parser.add_argument("--mix", type=Path, metavar="FILE", help="workloads in a TOML file")
    parser.add_argument(
        "--quotas",
        type=Path,
        metavar="FILE",
        help="quotas of users and workloads, as in head.toml",
    )
    parser.add_argument("--seed", type=whole, default=1, metavar="N", help="default: 1")
    add_json(parser)
    parser.set_defaults(command=simulate)


def simulate(options: argparse.Namespace) -> int:
    """``artos simulate``: try a cluster that is not there."""
    from deploy.simulation.cluster import Cluster  # noqa: PLC0415
    from deploy.simulation.mix import mix  # noqa: PLC0415
    from deploy.simulation.recorded import recorded  # noqa: PLC0415
    from deploy.simulation.toml_tables import quotas_in  # noqa: PLC0415

    folders = [folder for group in options.journal for folder in group]
    if bool(folders) == (options.mix is not None):
        raise Refused(["say what is to run: --journal RUN ..., or --mix FILE"])
    quotas = quotas_in(options.quotas) if options.quotas else None
    cluster = Cluster(
        options.nodes, options.slots, options.devices, options.seed, quotas, options.runs_per_slot
    )
    forecast = cluster.run(mix(options.mix) if options.mix else recorded(folders))
    if options.json:
        print_json(forecast)
    else:
        print(printable(text(forecast)))
    return ExitStatus.FAILED if forecast.unfinished else ExitStatus.DONE


def text(forecast: Forecast) -> str:
    """The forecast as a table, and what it comes to."""
    held, many = forecast.utilisation, forecast.runs_per_slot
    lines = [
        f"makespan     {forecast.makespan:,.1f} s on {forecast.nodes:,} x {forecast.slots} slots "
        f"{f'with {many} runs each ' if many > 1 else ''}and {forecast.devices} devices",
        f"utilisation  slots {held['slots']:.0%}, devices {held['devices']:.0%}",
    ]
    lines += [
        f"waits        {name}: {each['mean']:.3f} s on average, {each['longest']:.3f} s at most"
        for name, each in forecast.waits.items()
        if each["count"] and (name != "quota" or each["longest"])
    ]
    rows = [("run", "arrived", "began", "ended", "steps", "updates", "CPU held", "device held")]
    rows += [
        (
            each.run,
            f"{each.arrived:.1f} s",
            f"{each.began:.1f} s",
            f"{each.ended:.1f} s",
            f"{each.steps:,}",
            f"{each.updates:,}",
            f"{each.cpu_seconds_held:.1f} s",
            f"{each.device_seconds_held:.1f} s",
        )
        for each in forecast.usage[:_MOST_SHOWN]
    ]
    lines += ["", *columns(rows, str.rjust)]
    if len(forecast.usage) > _MOST_SHOWN:
        lines.append(f"... and {len(forecast.usage) - _MOST_SHOWN:,} more: --json has all")
    lines += [f"{run} ended early: {why}" for run, why in forecast.ended_early.items()]
    lines += [f"{run} does not end: {why}" for run, why in forecast.unfinished.items()]
    took = f"{forecast.events:,} events in {forecast.simulated_in:.1f} s"
    return "\n".join([*lines, "", f"simulated {took}"])
