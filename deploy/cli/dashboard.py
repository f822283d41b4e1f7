"""``artos dashboard``: a page about runs and clusters."""

from __future__ import annotations

import argparse
import os
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from artos.errors import Refused
from artos.runs.exit_status import ExitStatus
from artos.system.logging_setup import to_stderr
from deploy.cli.cluster import head_of
from deploy.cli.common import add_json, print_json
from deploy.cli.parser import Parser, whole

if TYPE_CHECKING:
    from deploy.dashboard.sources import Source


def add_to(parser: Parser) -> None:
    """Add the flags of ``artos dashboard``."""
    parser.add_argument(
        "run",
        nargs="*",
        metavar="RUN",
        help="a run's folder, its name in --runs, or RUN@HEAD; default: all in --runs, or all of "
        "a head",
    )
    parser.add_argument("--runs", type=Path, metavar="DIR", help="default: runs")
    parser.add_argument(
        "--head", metavar="ADDRESS", help="tcp://IP:PORT or file:PATH; default: $ARTOS_HEAD"
    )
    parser.add_argument("--keys", type=Path, metavar="DIR", help="default: $ARTOS_KEYS")
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="where to listen; default: 127.0.0.1. Beyond this machine, the address that is "
        "printed has a token, which a browser needs",
    )
    parser.add_argument(
        "--port", type=whole, default=8365, metavar="N", help="0: any; default: 8365"
    )
    parser.add_argument(
        "--prices", type=Path, metavar="FILE", help="a table of prices (TOML), for the cost"
    )
    add_json(parser)
    parser.set_defaults(command=show_dashboard, starts=True)


def show_dashboard(options: argparse.Namespace) -> int:
    """``artos dashboard``: serve the page until a signal ends it.

    Raises:
        Refused: packages are missing, there is no such run, or the address cannot be used.
    """
    try:
        from deploy.dashboard.server import serve  # noqa: PLC0415 (an extra)
    except ModuleNotFoundError as error:
        raise Refused([f"no package {error.name}: pip install 'artos[dashboard]'"]) from error
    from deploy.client.bills import Prices  # noqa: PLC0415
    from deploy.dashboard.answers import Answers  # noqa: PLC0415

    def told(address: str) -> None:
        if options.json:
            print_json({"address": address}, indent=-1)
        else:
            print(f"open {address} in a browser; Ctrl-C ends this", flush=True)

    prices = Prices.load(options.prices) if options.prices else None
    source = _source(options)
    try:
        with suppress(KeyboardInterrupt):
            serve(Answers(source, prices), options.host, options.port, told)
    finally:
        source.close()
    return ExitStatus.DONE


def _source(options: argparse.Namespace) -> Source:
    from deploy.api.sweeping import without_files  # noqa: PLC0415
    from deploy.client.copied import live_state  # noqa: PLC0415
    from deploy.client.copies import local  # noqa: PLC0415
    from deploy.dashboard.sources import Folders, OfHead  # noqa: PLC0415
    from deploy.local.local_runs import folder_of  # noqa: PLC0415

    root = options.runs or Path("runs")
    if options.run and options.head:
        raise Refused(["give runs, or --head: of a head, all runs are shown"])
    if options.run:
        named = without_files(options.run)
        folders = [folder_of(local(run, "records"), root) for run in named]
        for run, folder in zip(named, folders, strict=True):
            if live_state(folder):
                to_stderr(
                    f"artos: {run} goes on; it is shown as it was copied: use --head for news"
                )
        return Folders(root, folders)
    head = options.head or (None if options.runs else os.environ.get("ARTOS_HEAD"))
    if head:
        return OfHead(head, partial(head_of, options, patient=False))
    return Folders(root)
