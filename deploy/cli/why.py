"""``artos why``: where a run's time went, what holds it up, and what to set."""

from __future__ import annotations

import argparse

import msgspec

from artos.runs.exit_status import ExitStatus
from artos.system.printable import printable
from deploy.cli.common import add_finished, add_json, folder_of_run, print_json
from deploy.cli.parser import Parser


def add_to(parser: Parser) -> None:
    """Add the flags of ``artos why``."""
    add_finished(parser)
    add_json(parser)
    parser.set_defaults(command=why)


def why(options: argparse.Namespace) -> int:
    """``artos why``: explain from its files why a run, live or over, is not faster."""
    from deploy.why.report import report, words  # noqa: PLC0415

    found = report(folder_of_run(options, "records"))
    if options.json:
        print_json(msgspec.to_builtins(found))
    else:
        for line in words(found):
            print(printable(line))
    return ExitStatus.DONE
