"""``artos head`` and ``artos worker``: the daemons of a cluster, in the foreground."""

from __future__ import annotations

import argparse
import os
import socket
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from artos.errors import Refused
from artos.runs.exit_status import ExitStatus
from artos.system.logging_setup import logging_to, to_stderr
from deploy.cli.common import add_labels, add_sharing, print_json
from deploy.cli.parser import Parser, whole


def add_head(parser: Parser) -> None:
    """Add the head's flags."""
    parser.add_argument("--config", type=Path, metavar="FILE", help="head.toml; flags override it")
    parser.add_argument(
        "--listen", metavar="tcp://IP:PORT", help="where to listen for workers and users"
    )
    parser.add_argument(
        "--publish",
        type=Path,
        metavar="FILE",
        help="write the address there, for --head file:FILE; --listen may then end in :0",
    )
    parser.add_argument(
        "--end-file",
        type=Path,
        metavar="FILE",
        help="told to stop, end runs only if this file exists; else they save, and go on with the "
        "next head",
    )
    parser.add_argument("--keys", type=Path, metavar="DIR", help="made by `artos keys DIR`")
    parser.add_argument("--runs", type=Path, metavar="DIR", help="run folders; default: runs")
    parser.add_argument(
        "--runs-at-once",
        type=whole,
        metavar="N",
        help="runs that this machine carries; others wait. default: by its cores and memory",
    )
    _add_devices(parser)
    _add_json(parser)
    parser.set_defaults(command=run_head, starts=True)


def add_worker(parser: Parser) -> None:
    """Add a worker's flags."""
    parser.add_argument(
        "--head",
        metavar="ADDRESS",
        default=os.environ.get("ARTOS_HEAD"),
        help="tcp://IP:PORT, or file:PATH if it publishes its address; default: $ARTOS_HEAD",
    )
    keys = os.environ.get("ARTOS_KEYS")
    parser.add_argument(
        "--keys",
        type=Path,
        metavar="DIR",
        default=Path(keys) if keys else None,
        help="with head.key and nodes/NAME.key_secret or nodes/any.key_secret, as `artos keys DIR` "
        "made them; default: $ARTOS_KEYS",
    )
    parser.add_argument("--name", default=socket.gethostname(), help="default: the host's name")
    parser.add_argument("--slots", type=whole, default=0, metavar="N", help="default: all CPUs")
    add_sharing(parser)
    parser.add_argument(
        "--stop-seconds",
        type=float,
        default=30.0,
        metavar="SECONDS",
        help="time for actors to end and send their rows after SIGTERM; default: 30",
    )
    parser.add_argument(
        "--lifetime",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="when this machine is taken back; it leaves --stop-seconds before",
    )
    parser.add_argument(
        "--notice",
        default="",
        metavar="FILE|URL",
        help="leave once this file exists, or this URL answers with more than no: "
        "the machine is taken back",
    )
    parser.add_argument(
        "--joined",
        type=Path,
        metavar="FILE",
        help="is there as long as this worker is with the head, for a probe or a script",
    )
    add_labels(parser, "this node has")
    _add_devices(parser)
    _add_json(parser)
    parser.set_defaults(command=run_worker, starts=True)


def _add_devices(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--devices",
        metavar="cuda:0,cpu:a=2",
        help="what learners on this machine take turns on, with --device pool (see artos pool); "
        "=2: two at once",
    )


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--json", action="store_true", help="print messages as JSON, one object per line"
    )


def run_head(options: argparse.Namespace) -> int:
    """``artos head``: the head of a cluster, until a signal ends it."""
    from artos.pool.devices import lent  # noqa: PLC0415
    from artos.transport.address import published  # noqa: PLC0415
    from head.daemon.daemon import HeadDaemon  # noqa: PLC0415
    from head.daemon.options import head_options  # noqa: PLC0415

    named = ("listen", "publish", "end_file", "keys", "runs", "runs_at_once", "devices")
    wanted = head_options(options.config, {name: getattr(options, name) for name in named})
    with (
        logging_to(_form(options)),
        HeadDaemon(wanted) as daemon,
        lent(wanted.devices, "artos head"),
        published(wanted.publish, daemon.endpoint, wanted.runs) as successor,
    ):
        daemon.run(successor)
    return ExitStatus.DONE


def run_worker(options: argparse.Namespace) -> int:
    """``artos worker``: a worker node, until a signal or its head ends it.

    Raises:
        Refused: the head or the keys are not named.
    """
    from artos.pool.devices import lent  # noqa: PLC0415
    from workers.daemon.daemon import WorkerDaemon, WorkerOptions  # noqa: PLC0415

    missing = [
        f"give --{name}, or set {variable}"
        for name, variable in (("head", "ARTOS_HEAD"), ("keys", "ARTOS_KEYS"))
        if not getattr(options, name)
    ]
    if missing:
        raise Refused(missing)
    wanted = WorkerOptions(
        options.head, options.keys, options.name, options.slots, options.stop_seconds,
        options.devices or "", options.runs_per_slot, options.notice,
        tuple(options.labels), options.lifetime, options.joined,
    )  # fmt: skip
    with (
        logging_to(_form(options)),
        WorkerDaemon(wanted) as daemon,
        lent(wanted.devices, "artos worker"),
    ):
        daemon.run()
    return ExitStatus.DONE


def _form(options: argparse.Namespace) -> Callable[[str], None]:
    def as_json(text: str) -> None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        print_json({"time": now, "text": text}, indent=-1)

    def as_text(text: str) -> None:
        # It may quote peers: later lines are indented, so that none looks like a message of ours.
        to_stderr(f"artos: {text}".replace("\n", "\n       "))

    return as_json if options.json else as_text
