"""``artos trace``: a run's journal as a trace: a file for viewers, or spans for a collector."""

from __future__ import annotations

import argparse
import os
from math import inf
from pathlib import Path

import msgspec

from artos.errors import Refused
from artos.runs.exit_status import ExitStatus
from artos.system.printable import printable
from deploy.cli.common import (
    BEHIND,
    add_finished,
    add_json,
    folder_of_run,
    print_json,
    renewing,
    writing,
)
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
    parser.add_argument(
        "--otlp", action="store_true",
        help="send it to OTEL_EXPORTER_OTLP_ENDPOINT, a collector of OpenTelemetry, instead",
    )  # fmt: skip
    parser.add_argument(
        "-f", "--follow", action="store_true", help="with --otlp: go on until the run is over"
    )
    add_json(parser)
    parser.set_defaults(command=trace)


def trace(options: argparse.Namespace) -> int:
    """``artos trace``: write what each member did when, and what caused what, or send it."""
    from deploy.tracing.file import Written, write  # noqa: PLC0415
    from deploy.tracing.otlp import Sent, send  # noqa: PLC0415

    if options.follow and not options.otlp:
        raise Refused(["--follow goes with --otlp: a file has what there is now"])
    if options.output and options.otlp:
        raise Refused(["--otlp sends spans, and writes no file: leave out --output"])
    folder = folder_of_run(options, "all")
    name = folder.resolve().name
    found: Sent | Written
    if options.otlp:
        if options.follow:
            os.nice(BEHIND)  # the run goes first
        wait = renewing(options, folder) if options.follow else None
        found = sent = send(folder, options.since, options.until, wait)
        words = f"{sent.endpoint} has {sent.spans:,} spans of {name}, in {sent.traces:,} traces"
    else:
        path = options.output or Path(f"{name}-trace.json")
        with writing("-o", path):
            found = written = write(folder, path, options.since, options.until)
        words = (
            f"{path}: {written.events:,} events of {written.seconds:,.1f} s; "
            "open it at https://ui.perfetto.dev or in chrome://tracing"
        )
    if found.damaged:
        words += f"; {found.damaged:,} damaged lines are left out"
    if options.json:
        print_json(msgspec.to_builtins(found))
    else:
        print(printable(words))
    return ExitStatus.DONE
