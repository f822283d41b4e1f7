"""Shared by several commands: the flags of a workload, and results as JSON."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from artos.errors import DeadlineExceeded, NoHead, Refused
from artos.runs.run_config import DEADLINE
from artos.system.logging_setup import to_stderr
from deploy.cli.parser import Parser, whole

BEHIND = 10
"""How much nicer who looks at a run is than the run."""
_LOOK, _AWAY = 2.0, 300.0
"""Seconds between two looks at a run, and how long its head may be away meanwhile."""


def add_json(parser: Parser) -> None:
    """Add ``--json``."""
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def add_deadline(parser: Parser, seconds: float, help_: str) -> None:
    """Add ``--deadline``, so many seconds by default."""
    parser.add_argument(
        "--deadline", type=float, default=seconds, metavar="SECONDS",
        help=f"{help_}; default: {seconds:g}",
    )  # fmt: skip


def add_finished(parser: Parser, more: str = "") -> None:
    """Add ``RUN``, which may also be what ``more`` says, and ``--runs``; see ``folder_of_run``."""
    parser.add_argument(
        "run",
        metavar="RUN",
        help="a run's folder on this machine, its name in --runs, or RUN@HEAD, one of a head"
        + more,
    )
    parser.add_argument(
        "--runs", type=Path, default=Path("runs"), metavar="DIR", help="default: runs"
    )


@contextmanager
def writing(flag: str, path: Path) -> Iterator[None]:
    """Have what keeps the block from writing ``path``, which a flag named, be refused.

    Raises:
        Refused: there is no such folder, no right, no room.
    """
    try:
        yield
    except BrokenPipeError:  # as of any output
        raise
    except OSError as error:
        folder, named = path.absolute().parent, error.filename
        if named is not None and not Path(named).absolute().is_relative_to(folder):
            raise  # what is read for it
        raise Refused([f"{flag} {path}: {error.strerror}"]) from error


def folder_of_run(
    options: argparse.Namespace, what: str = "checkpoint", run: str | None = None
) -> Path:
    """The folder of the run that was named, by default as ``RUN``.

    Of one of a head ``what`` is needed is copied first.
    """
    from deploy.client.copies import local  # noqa: PLC0415
    from deploy.local.local_runs import folder_of  # noqa: PLC0415

    name = options.run if run is None else run
    elsewhere = f"for a run of the head: {name}@" if os.environ.get("ARTOS_HEAD") else ""
    return folder_of(local(name, what), options.runs, elsewhere)


def renewing(options: argparse.Namespace, folder: Path) -> Callable[[], None]:
    """What whoever follows a run calls where nothing is new: waits, and copies what is on a head.

    Raises:
        NoHead, DeadlineExceeded: the head has been away for minutes.
    """
    from deploy.client.copied import live_state  # noqa: PLC0415

    name, at, _ = options.run.partition("@")
    if live_state(folder) and not at:
        to_stderr(f"artos: {folder} is a copy: `artos get {name} --follow` brings what comes")
        to_stderr(f"artos: it is waited for as long as there are news every {_AWAY:g} seconds")
    heard, newest = time.monotonic(), 0

    def renew() -> None:
        nonlocal heard, newest
        time.sleep(_LOOK)
        away = time.monotonic() - heard > _AWAY
        try:
            folder_of_run(options, "all")
        except (NoHead, DeadlineExceeded):
            if away:
                raise
            return
        changed = (folder / "progress.csv").stat().st_mtime_ns if live_state(folder) else 0
        if at or changed != newest or not live_state(folder):
            heard, newest = time.monotonic(), changed
        elif away:
            raise DeadlineExceeded(f"what comes of {name} by `artos get {name} --follow`", _AWAY)

    return renew


def add_env_args(parser: Parser) -> None:
    """Add ``--env-arg``."""
    parser.add_argument(
        "--env-arg",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        dest="env_args",
        help="an argument of the environment, e.g. --env-arg task=reach-v3; may be repeated",
    )


def pairs(flag: str, given: Sequence[str]) -> dict[str, str]:
    """Texts of the form ``KEY=VALUE`` by key.

    Raises:
        Refused: one of them is not; all of these.
    """
    if bad := [text for text in given if not text.partition("=")[0] or "=" not in text]:
        raise Refused([f"{flag} {text!r}: write KEY=VALUE" for text in bad])
    return dict(text.split("=", 1) for text in given)


def env_args_of(options: argparse.Namespace) -> dict[str, Any]:
    """Every ``--env-arg``, numbers and other plain data read as ``--set`` reads them.

    Raises:
        Refused: one without a key or ``=``.
    """
    from artos.specs.settings import convert  # noqa: PLC0415

    given = pairs("--env-arg", options.env_args)
    return {name: convert(name, value, Any) for name, value in given.items()}


def add_workload(parser: Parser, *, seeds: bool = False) -> None:
    """Add the arguments that every command about a workload has; with several ``seeds`` no seed."""
    parser.add_argument("workload", nargs="?", help="an algorithm (ppo) or FILE.py:OBJECT")
    parser.add_argument("--env", help="a Gymnasium id or module:factory")
    add_env_args(parser)
    parser.add_argument(
        "--actors",
        metavar="N",
        help="actor processes; also a schedule (0:4,5:8), bounds (4..16, see scale) or a policy "
        "(noise_scale:2..16, plateau:2..16)",
    )
    parser.add_argument("--total-steps", type=whole, metavar="N", help="environment steps in all")
    parser.add_argument("--total-updates", type=whole, metavar="N", help="updates in all")
    parser.add_argument(
        "--device",
        metavar="auto|cpu|cuda:N|pool",
        help="where the learner computes; default: cpu; auto: on a GPU if the network is large; "
        "pool: on a device of this machine that it leases for each update (see artos pool); of "
        "several learners each: NAME=DEVICE,...",
    )
    parser.add_argument(
        "--weight", metavar="W", help="its share of what runs take turns on; default: 1"
    )
    parser.add_argument(
        "--priority", metavar="P", help="higher ones have their turns first; default: 0"
    )
    if not seeds:
        parser.add_argument("--seed", type=whole, metavar="N", help="default: 1")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        dest="settings",
        help="a setting of the workload, e.g. --set lr=0.001; may be repeated",
    )
    parser.add_argument(
        "--deadline", type=float, metavar="SECONDS",
        help="how long an actor or the learner may take to answer before it counts as hung, and "
        f"how long a run may stand still; default: {DEADLINE:g}",
    )  # fmt: skip
    add_json(parser)


def settings_of(options: argparse.Namespace) -> dict[str, Any]:
    """The flags that were given and every ``--set``, as one dictionary.

    Raises:
        Refused: a ``--set`` or ``--env-arg`` without ``=``.
    """
    named = ("env", "actors", "total_steps", "total_updates", "device", "weight", "priority")
    flags = {name: getattr(options, name) for name in named}
    settings = {name: value for name, value in flags.items() if value is not None}
    arguments = env_args_of(options) if options.env_args else {}
    named_ones = {"env_args": arguments} if arguments else {}
    return settings | named_ones | pairs("--set", options.settings)


def given_seed(options: argparse.Namespace) -> int:
    """The seed, 1 if none was given."""
    return 1 if options.seed is None else int(options.seed)


def given_deadline(options: argparse.Namespace) -> float:
    """The deadline in seconds, the usual one if none was given."""
    return DEADLINE if options.deadline is None else float(options.deadline)


def workload_of(options: argparse.Namespace) -> str:
    """The workload named on the command line.

    Raises:
        Refused: no workload was named.
    """
    if not options.workload:
        raise Refused(["name a workload: an algorithm (ppo) or FILE.py:OBJECT"])
    return str(options.workload)


def add_placement(parser: Parser) -> None:
    """Add ``--placement``, ``--where`` and ``--packages``, of runs that are submitted."""
    parser.add_argument(
        "--placement", choices=("spread", "pack"),
        help="each actor on the least loaded node, or one node filled before the next; default: "
        "spread",
    )  # fmt: skip
    parser.add_argument(
        "--where",
        action="append",
        default=[],
        metavar="LABEL",
        help="place actors on workers with this --label only; may be repeated",
    )
    parser.add_argument(
        "--packages",
        type=Path,
        metavar="FILE",
        help="requirements.txt or uv.lock: what the run needs; installed once on each machine",
    )


def add_sharing(parser: argparse.ArgumentParser) -> None:
    """Add ``--runs-per-slot``, of a worker or of all workers of a cluster."""
    parser.add_argument(
        "--runs-per-slot",
        type=whole,
        default=1,
        metavar="N",
        help="runs that may be on a worker for each slot; their actors take turns. default: 1",
    )


def add_labels(parser: argparse.ArgumentParser, whose: str) -> None:
    """Add ``--label``, which says what ``whose``: "this node has"."""
    parser.add_argument(
        "--label", dest="labels", action="append", default=[], metavar="LABEL",
        help=f"what {whose}, such as avx512 or room=b, for `artos submit --where`; may be repeated",
    )  # fmt: skip


def add_trust(parser: argparse.ArgumentParser) -> None:
    """Add ``--trust``."""
    parser.add_argument(
        "--trust", action="store_true",
        help="run the code that a run's folder names wherever it is, and read its pickled states",
    )  # fmt: skip


def columns(
    rows: Sequence[Sequence[str]], aligned: Callable[[str, int], str] = str.ljust
) -> list[str]:
    """The rows of a table as lines, with columns of equal width; each cell is ``aligned``."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(aligned, row, widths)).rstrip() for row in rows]


def print_json(value: Any, *, indent: int = 1) -> None:
    """Print a result as JSON; ``indent`` -1 puts it on one line."""
    import msgspec  # noqa: PLC0415

    print(msgspec.json.format(msgspec.json.encode(value), indent=indent).decode(), flush=True)
