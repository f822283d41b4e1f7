"""``artos completion SHELL``: a script that completes commands and flags (by shtab)."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Mapping
from pathlib import Path

from deploy.cli.parser import Parser

SHELLS = ("bash", "zsh", "tcsh", "fish")
_DONE = 0
_FILES = ("workload", "run", "runs")
"""Arguments that may be file names, though they are not parsed as paths."""


def add_to(commands: argparse._SubParsersAction[Parser], parser: Parser) -> None:
    """Add the command, whose script completes the commands of ``parser``."""
    completion = commands.add_parser("completion", help="print a completion script for a shell")
    completion.add_argument("shell", choices=SHELLS, help='bash: eval "$(artos completion bash)"')
    completion.set_defaults(command=functools.partial(print_script, parser, commands.choices))


def print_script(
    parser: Parser, commands: Mapping[str, Parser], options: argparse.Namespace
) -> int:
    """``artos completion``: print the script for a shell."""
    import shtab  # noqa: PLC0415

    for each in commands.values():
        for action in each.arguments:
            if action.type is Path or action.dest in _FILES:
                folder = action.metavar == "DIR"
                action.complete = shtab.DIRECTORY if folder else shtab.FILE  # type: ignore[attr-defined]
    print(shtab.complete(parser, options.shell))
    return _DONE
