"""``artos bench``: becomes the benchmark suite, a program of the floor above this one.

The suite calls this command, as users do. So nothing here imports the suite: it is started by its
name, as the processes of a run are, and may be missing from an installation.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from artos.system.child_modules import ChildModule
from deploy.cli.parser import Parser, whole

PRINTED = Path("-")
"""What ``--json`` without a file stands for: standard output."""


def add_to(parser: Parser) -> None:
    """Add the arguments of ``artos bench``."""
    add_arguments(parser)
    parser.set_defaults(command=_bench)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the command takes and hands to the suite."""
    parser.add_argument(
        "name",
        nargs="?",
        help="a benchmark, or several: all, seeds, paper or readme; without one, lists them",
    )
    parser.add_argument(
        "--json",
        type=Path,
        metavar="FILE",
        nargs="?",
        const=PRINTED,
        help="write rows and ratios to FILE; without one, print them",
    )
    parser.add_argument(
        "--task",
        default="",
        metavar="TEXT",
        help="of a benchmark of several tasks measure the one that has TEXT in its name",
    )
    parser.add_argument("--repeats", type=whole, metavar="N", help="repetitions of each case")
    parser.add_argument(
        "--quick", action="store_true", help="a smoke test; its figures mean nothing"
    )
    parser.add_argument(
        "--resume", action="store_true", help="go on where the same benchmark was stopped"
    )


def words_of(options: argparse.Namespace) -> Iterator[str]:
    """The command line that parses to these options."""
    if options.name is not None:
        yield options.name
    if options.json is not None:
        yield f"--json={options.json}"
    if options.task:
        yield f"--task={options.task}"
    if options.repeats is not None:
        yield f"--repeats={options.repeats}"
    if options.quick:
        yield "--quick"
    if options.resume:
        yield "--resume"


def _bench(options: argparse.Namespace) -> int:
    sys.stdout.flush()
    suite = [sys.executable, "-P", "-m", ChildModule.BENCHMARKS, *words_of(options)]
    os.execv(sys.executable, suite)
