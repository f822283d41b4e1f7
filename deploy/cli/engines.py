"""``artos up`` and ``artos down``: a cluster on an engine (Slurm, ssh, ...)."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

from artos.errors import Refused
from artos.runs.exit_status import ExitStatus
from artos.system.logging_setup import to_stderr
from artos.system.regular_file import contents
from deploy.cli.common import add_json, add_labels, add_sharing, print_json
from deploy.cli.parser import Parser, whole, words

if TYPE_CHECKING:
    from deploy.launchers.cluster import Cluster


def add_up(parser: Parser) -> None:
    """Add the flags of ``artos up``."""
    parser.add_argument(
        "--on", required=True, metavar="ENGINE", help="slurm, kubernetes, ray or ssh"
    )
    parser.add_argument(
        "--nodes",
        required=True,
        metavar="N|MIN..MAX",
        help="workers, a machine each (on Ray, and on Slurm with --slots: so many CPUs each); "
        "MIN..MAX: as many as runs can use",
    )
    parser.add_argument("--name", default="artos", help="of the cluster; default: artos")
    parser.add_argument(
        "--hosts", type=Path, metavar="FILE", help="with ssh: the machines, one per line"
    )
    parser.add_argument(
        "--python",
        default=sys.executable,
        metavar="PATH",
        help="the interpreter that has ARTOS on all machines; default: this one "
        "(Kubernetes: that of the image)",
    )
    parser.add_argument("--slots", type=whole, default=0, metavar="N", help="CPUs of a worker")
    add_sharing(parser)
    add_labels(parser, "its workers have")
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="head.toml: admins, accounts, quotas and other options of the head",
    )
    for unit in ("head", "worker"):
        parser.add_argument(
            f"--{unit}-options",
            type=words,
            default=(),
            metavar="WORDS",
            help=f"for the engine, about the {unit}, such as --{unit}-options='--partition=long'",
        )
    parser.add_argument(
        "--notice",
        type=float,
        default=90.0,
        metavar="SECONDS",
        help="that a worker has for leaving once the engine takes it back; default: 90",
    )
    parser.add_argument(
        "--notice-at",
        default="",
        metavar="FILE|URL",
        help="where workers see, too, that their machine is taken back: this file exists, or this "
        "URL answers with more than no, as on spot machines of clouds",
    )
    parser.add_argument(
        "--no-scaling",
        dest="scaled",
        action="store_false",
        help="leave the number of workers to something else once they are up, such as your own "
        "autoscaler",
    )
    parser.add_argument(
        "--wait",
        type=float,
        default=120.0,
        metavar="SECONDS",
        help="how long to wait for head and workers; 0: not at all. default: 120",
    )
    parser.add_argument(
        "--dry-run",
        nargs="?",
        const="",
        metavar="DIR",
        help="print what the engine would get, or write it into files in DIR; start nothing",
    )
    parser.add_argument("--env", action="store_true", help="print variables for a shell's eval")
    add_json(parser)
    parser.set_defaults(command=bring_up, starts=True)


def add_down(parser: Parser) -> None:
    """Add the arguments of ``artos down``."""
    parser.add_argument("name", metavar="NAME", help="of a cluster that `artos up` has started")
    parser.add_argument(
        "--forget",
        action="store_true",
        help="leave behind what cannot be ended or removed, as on a host that does not come back",
    )
    add_json(parser)
    parser.set_defaults(command=take_down)


def bring_up(options: argparse.Namespace) -> int:
    """``artos up``: a cluster on an engine."""
    from deploy.launchers import bringing_up  # noqa: PLC0415
    from deploy.launchers.cluster import Cluster, clusters  # noqa: PLC0415
    from deploy.launchers.launcher import launcher_of  # noqa: PLC0415
    from head.daemon.options import config_for_engine  # noqa: PLC0415

    least, most = _bounds(options.nodes)
    wanted = Cluster(
        name=options.name,
        engine=options.on,
        folder=str(clusters() / options.name),
        least=least,
        most=most,
        head_options=options.head_options,
        worker_options=options.worker_options,
        hosts=_hosts(options.hosts),
        slots=options.slots,
        runs_per_slot=options.runs_per_slot,
        labels=tuple(options.labels),
        notice=options.notice,
        notice_at=options.notice_at,
        scaled=options.scaled,
        config=config_for_engine(options.config) if options.config else "",
        python=options.python,
    )
    if options.dry_run is not None:
        return _show_plan(wanted, options.dry_run, as_json=options.json)
    with redirect_stdout(sys.stderr):  # an engine's client may print, as Ray's does
        started = bringing_up.up(wanted, options.wait, lambda said: to_stderr(f"artos: {said}"))
    if options.json:
        print_json(started)
    elif options.env:
        if started.forward:
            to_stderr(f"artos: to reach its head from here, run: {started.forward} &")
        print(f"export ARTOS_HEAD={shlex.quote(started.address)}")
        print(f"export ARTOS_KEYS={shlex.quote(started.keys)}")
    else:
        what = "was up already" if started.joined else "is up"
        print(f"cluster {started.name} {what}: {len(started.nodes)} workers have joined")
        for each in started.missing:
            print(f"  missing: {each}")
        if volume := launcher_of(wanted).volume:
            print(f"  keys: {started.keys}; runs: in volume {volume}; logs: those of its pods")
        else:
            print(f"  runs, logs and keys: {started.folder}")
        if started.forward:
            print(f"  to reach its head from here, run: {started.forward} &")
        print('  to use it: eval "$(artos up --env ...)", or')
        print(f"    export ARTOS_HEAD={started.address} ARTOS_KEYS={started.keys}")
        print(f"  to end it: artos down {started.name}")
    return ExitStatus.DONE


def _show_plan(wanted: Cluster, folder: str, *, as_json: bool) -> int:
    """Print what would be started, or write it into a folder if one is named."""
    from deploy.launchers.launcher import launcher_of, misasked  # noqa: PLC0415

    if wrong := misasked(wanted):
        raise Refused(wrong)
    engine = launcher_of(wanted)
    plan = engine.plan()
    if folder:
        files = _write(Path(folder), {**plan, **engine.beside()})
        if as_json:
            print_json({"files": files})
        else:
            print("\n".join(files))
    elif as_json:
        print_json(plan)
    else:
        print("\n".join(f"# {name}\n{text}" for name, text in plan.items()))
    return ExitStatus.DONE


def take_down(options: argparse.Namespace) -> int:
    """``artos down``: end a cluster."""
    from deploy.launchers import bringing_up  # noqa: PLC0415
    from deploy.launchers.launcher import launcher_of  # noqa: PLC0415

    with redirect_stdout(sys.stderr):
        ended = bringing_up.down(
            options.name, lambda said: to_stderr(f"artos: {said}"), forget=options.forget
        )
    volume = launcher_of(ended).volume
    runs, logs = (volume, "") if volume else (str(ended.runs), str(ended.logs))
    if options.json:
        print_json({"name": ended.name, "runs": runs, "logs": logs})
    elif volume:
        print(f"cluster {ended.name} has ended; its runs stay in volume {volume}")
    else:
        print(f"cluster {ended.name} has ended; its runs and logs stay in {ended.folder}")
    return ExitStatus.DONE


def _write(folder: Path, plan: Mapping[str, str]) -> list[str]:
    """Write files into a folder; returns their paths."""
    try:
        for name, text in plan.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
    except OSError as error:
        raise Refused([f"--dry-run {folder}: {error.strerror}"]) from error
    return [str(folder / name) for name in plan]


def _bounds(text: str) -> tuple[int, int]:
    """The least and the largest number of ``N`` or ``MIN..MAX``."""
    least, _, most = text.partition("..")
    try:
        return int(least), int(most or least)
    except ValueError:
        raise Refused([f"--nodes {text!r}: write N or MIN..MAX"]) from None


def _hosts(path: Path | None) -> tuple[str, ...]:
    """The machines in a file; comments and empty lines are left out."""
    if path is None:
        return ()
    try:
        lines = contents(path).decode().splitlines()
    except OSError as error:
        raise Refused([f"--hosts {path}: {error.strerror}"]) from error
    except UnicodeDecodeError as error:
        raise Refused([f"--hosts {path}: it is no text"]) from error
    return tuple(host for line in lines if (host := line.partition("#")[0].strip()))
