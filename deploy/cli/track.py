"""``artos track``: send a run to an experiment tracker, after it or while it goes on."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import redirect_stdout

from artos.runs.exit_status import ExitStatus
from artos.system.printable import printable
from deploy.cli.common import BEHIND, add_finished, add_json, folder_of_run, print_json, renewing
from deploy.cli.parser import Parser
from deploy.tracking.trackers import NAMES

_ONCE, _FOLLOWERS = 10.0, 600.0
"""Seconds for which another process may go on sending what is left."""


def add_track(parser: Parser) -> None:
    """Add ``--track``, which has trackers follow a run from its start."""
    parser.add_argument(
        "--track",
        action="append",
        default=[],
        choices=NAMES,
        metavar="|".join(NAMES),
        help="send the run to this tracker, too, while it goes on; may be repeated",
    )


def add_to(parser: Parser) -> None:
    """Add the flags of ``artos track``."""
    add_finished(parser)
    parser.add_argument(
        "--to", required=True, choices=NAMES, metavar="|".join(NAMES), help="where it is sent"
    )
    parser.add_argument(
        "--project", metavar="NAME", help="default: what the tracker's own variable says, or artos"
    )
    parser.add_argument("-f", "--follow", action="store_true", help="go on until the run is over")
    parser.add_argument("--weights", action="store_true", help="send its weights, too, in the end")
    add_json(parser)
    parser.set_defaults(command=track)


def track(options: argparse.Namespace) -> int:
    """``artos track``: send what the tracker does not have yet."""
    from deploy.tracking.following import Following  # noqa: PLC0415
    from deploy.tracking.trackers import opened, place, project, require  # noqa: PLC0415

    require(options.to)
    folder = folder_of_run(options, "all")
    with redirect_stdout(sys.stderr):  # where trackers talk
        where = options.project or project(options.to), place(options.to)
        # One that follows a resumed run has time until the one before it has sent all.
        patience = _FOLLOWERS if options.follow else _ONCE
        with Following(
            folder, options.to, *where, lambda t: opened(options.to, t), patience
        ) as run:
            before = run.sent.rows
            if options.follow:
                os.nice(BEHIND)  # the run goes first
                run.follow(renewing(options, folder))
            else:
                while run.forward():
                    pass
            run.finish(weights=options.weights)
    sent = run.sent.rows - before
    if options.json:
        print_json({"to": options.to, "id": run.sent.id, "rows": sent})
    else:
        print(printable(f"{options.to} has {sent:,} more rows of {folder.name}, as {run.sent.id}"))
    return ExitStatus.DONE
