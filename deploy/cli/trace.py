"""``artos trace``: a run's journal as a trace, for a viewer of timelines."""

from __future__ import annotations

import argparse
from math import inf
from pathlib import Path

import msgspec

from artos.runs.exit_status import ExitStatus
from artos.system.printable import printable
from deploy.cli.common import add_finished, add_json, folder_of_run, print_json
from deploy.cli.parser import Parser


def add_to(parser: Parser) -> None:
    """Add the flags of ``artos trace``."""
    add_finished(parser)
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="default: RUN-trace.json here"
    )
    parser.add_argument(
        "--since", type=float, default=0.0, metavar="SECONDS", help="leave out what was before"
    )
    parser.add_argument(
        "--until", type=float, default=inf, metavar="SECONDS", help="leave out what was later"
    )
    add_json(parser)
    parser.set_defaults(command=trace)


def trace(options: argparse.Namespace) -> int:
    """``artos trace``: write what each member did when, and what caused what."""
    from deploy.tracing.file import write  # noqa: PLC0415

    folder = folder_of_run(options, "all")
    path = options.output or Path(f"{folder.resolve().name}-trace.json")
    written = write(folder, path, options.since, options.until)
    if options.json:
        print_json(msgspec.to_builtins(written))
    else:
        print(
            printable(
                f"{path}: {written.events:,} events of {written.seconds:,.1f} s; "
                "open it at https://ui.perfetto.dev or in chrome://tracing"
            )
        )
    return ExitStatus.DONE
