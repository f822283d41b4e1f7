"""The parser of every command: no abbreviated flags, and suggestions for mistyped names."""

from __future__ import annotations

import argparse
import difflib
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any, NoReturn

from artos.runs.exit_status import ExitStatus
from artos.specs.counts import count
from artos.system.printable import printable


class Parser(argparse.ArgumentParser):
    """A parser that lists its flags, and reports an error in one line."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, **options)

    @property
    def arguments(self) -> list[argparse.Action]:
        """Its arguments, also those in mutually exclusive groups."""
        return [*self._actions]

    @property
    def flags(self) -> list[str]:
        """Every flag, ``--seed`` and ``-f``."""
        return [name for action in self.arguments for name in action.option_strings]

    def error(self, message: str) -> NoReturn:
        """Print the error and the command that prints help; end with status 2."""
        said = f"{printable(message)}\n  see {self.prog} --help"
        print(f"artos: {said}", file=sys.stderr)
        sys.exit(ExitStatus.REFUSED)


def parse(
    parser: Parser, commands: Mapping[str, Parser], words: Sequence[str]
) -> argparse.Namespace:
    """Parse a command line; unknown names are reported first, all at once."""
    if not words:
        parser.print_help(sys.stderr)
        sys.exit(ExitStatus.REFUSED)
    command = next((word for word in words if not word.startswith("-")), "")
    if mistakes := list(_mistakes(parser, commands, command, words)):
        commands.get(command, parser).error("; ".join(mistakes))
    return parser.parse_args(words)


def _mistakes(
    parser: Parser, commands: Mapping[str, Parser], command: str, words: Sequence[str]
) -> Iterator[str]:
    """Unknown commands and flags."""
    before = list(takewhile(lambda word: word.startswith("-"), words))
    yield from _unknown_flags(before, parser)
    if command in commands:
        yield from _unknown_flags(words[len(before) + 1 :], commands[command])
    elif command:
        yield f"there is no command {command!r}{_meant(command, list(commands))}"


def _unknown_flags(words: Sequence[str], parser: Parser) -> Iterator[str]:
    if any(action.nargs == argparse.REMAINDER for action in parser.arguments):
        return  # the other words are for the command that is run
    for word in takewhile(lambda word: word != "--", words):
        name = word.partition("=")[0]
        if name.startswith("--") and name not in parser.flags:
            yield f"there is no flag {name}{_meant(name, parser.flags)}"


def _meant(name: str, known: Sequence[str]) -> str:
    bare = {each.lstrip("-"): each for each in known}
    near = difflib.get_close_matches(name.lstrip("-"), bare, n=2)
    return f": did you mean {' or '.join(bare[each] for each in near)}?" if near else ""


def whole(text: str) -> int:
    """Parse a whole number on the command line.

    Raises:
        argparse.ArgumentTypeError: the text is not a whole number.
    """
    try:
        return count(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text}: {error}") from None


def words(text: str) -> tuple[str, ...]:
    """Parse words on the command line, quoted as in a shell.

    Raises:
        argparse.ArgumentTypeError: a quote is not closed.
    """
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text}: {error}") from None


class ShowVersion(argparse.Action):
    """``--version``: prints the version and ends."""

    def __init__(self, option_strings: Sequence[str], dest: str) -> None:
        super().__init__(option_strings, dest, nargs=0, help="print the version and end")

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        """Print the version; it is looked up only now, as that takes a while."""
        from artos.version import VERSION  # noqa: PLC0415

        print(f"{parser.prog} {VERSION}")
        sys.exit(0)
