"""``artos replay``: repeats a recorded run in this process, bit for bit."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from contextlib import nullcontext, redirect_stdout

import msgspec

from artos.runs.exit_status import ExitStatus
from artos.system.printable import printable
from deploy.cli.common import add_finished, add_json, add_trust, folder_of_run, print_json
from deploy.cli.parser import Parser, whole


def add_to(parser: Parser) -> None:
    """Add the flags of ``artos replay``."""
    add_finished(parser)
    parser.add_argument(
        "--until", type=whole, metavar="UPDATE", help="end with this version; default: the last"
    )
    parser.add_argument(
        "--verify", action="store_true", help="print only whether all versions are the same"
    )
    parser.add_argument(
        "--break", type=whole, dest="stop", metavar="UPDATE",
        help="stop in pdb before this version is made, with the batch at hand",
    )  # fmt: skip
    add_trust(parser)
    add_json(parser)
    parser.set_defaults(command=replay)


def replay(options: argparse.Namespace) -> int:
    """``artos replay``: repeat a run, and say whether it came out the same."""
    from deploy.replay.opening import replayed  # noqa: PLC0415

    folder = folder_of_run(options, "all")
    quiet = options.verify or options.json
    with redirect_stdout(sys.stderr) if options.json else nullcontext():
        found = replayed(
            folder, until=options.until, stop=options.stop, trust=options.trust,
            learned=(lambda *_: None) if quiet else _show,
        )  # fmt: skip
    if options.json:
        print_json({"run": str(folder), **msgspec.to_builtins(found)})
    elif found.first_difference is not None:
        print(printable(f"first difference: {found.first_difference}"))
    else:
        short = f"; it ends there: {found.ended}" if found.ended else ""
        came = "1 version" if found.versions == 1 else f"{found.versions:,} versions, all"
        print(printable(f"{came} as in the run{short}"))
    # What was not made again is not verified.
    same = found.equal and not (options.verify and found.ended)
    return ExitStatus.DONE if same else ExitStatus.FAILED


def _show(learner: str, version: int, steps: int, metrics: Mapping[str, float]) -> None:
    """Show what an invocation of the learner came to."""
    told = "  ".join(f"{name} {value:.6g}" for name, value in metrics.items())
    of = f"{learner} " if learner else ""
    print(printable(f"{of}version {version:,}  {steps:,} steps  {told}"), flush=True)
