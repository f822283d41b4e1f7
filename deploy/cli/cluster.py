"""Commands about the runs of a head or of this machine: list, status, logs, stop, scale, top, ...

RUN is a run's folder on this machine, or the name of a run: on the head if a head is given
(``--head`` or ``ARTOS_HEAD``), else in ``--runs``.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from artos.errors import Refused
from artos.runs.exit_status import ExitStatus
from artos.system.logging_setup import to_stderr
from artos.system.printable import printable
from deploy.cli.common import (
    add_json,
    add_placement,
    add_workload,
    given_seed,
    pairs,
    print_json,
    settings_of,
    workload_of,
)
from deploy.cli.parser import Parser, whole

if TYPE_CHECKING:
    from deploy.client.head_client import HeadClient
    from deploy.local.local_runs import LocalRuns

_FOLLOW_SECONDS = 0.5
_TOP_SECONDS = 1.0
_LAST_OF_LOG = 20_000  # bytes
_RUN = (
    "a run's folder on this machine, or the name of a run: on the head if a head is given, "
    "else in --runs"
)


def add_to(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add these commands; ``submit`` and ``drain`` need a head."""
    submit = commands.add_parser("submit", help="train on a cluster")
    add_workload(submit)
    submit.add_argument(
        "--run-dir",
        default="",
        metavar="DIR",
        help="the run's folder, within the head's run folders",
    )
    submit.add_argument(
        "--resume", default="", metavar="RUN", help="continue one of the head's runs"
    )
    add_placement(submit)
    submit.add_argument(
        "--wait", action="store_true", help="wait until the run is over; Ctrl-C stops the run"
    )
    submit.set_defaults(starts=True)
    _towards_head(submit, submit_run, json=False)
    listing = commands.add_parser("list", help="list the runs of this machine or a cluster")
    _towards_runs(listing, list_runs)
    status = commands.add_parser("status", help="show nodes and runs, or one run")
    status.add_argument("run", nargs="?", default="", metavar="RUN", help=_RUN)
    _towards_runs(status, show_status)
    usage = commands.add_parser("usage", help="show what runs have held and used, and its cost")
    usage.add_argument("run", nargs="?", default="", metavar="RUN", help=_RUN)
    usage.add_argument(
        "--prices", type=Path, metavar="FILE", help="a table of prices (TOML), for the cost"
    )
    _towards_runs(usage, show_usage)
    logs = commands.add_parser("logs", help="print the messages of a run")
    logs.add_argument("run", metavar="RUN", help=_RUN)
    logs.add_argument(
        "-f", "--follow", action="store_true", help="keep printing until the run is over"
    )
    logs.add_argument(
        "--all",
        action="store_true",
        help=f"print all of it, as -f and --json do; default: the last {_LAST_OF_LOG:,} bytes",
    )
    whose = logs.add_mutually_exclusive_group()
    whose.add_argument("--actor", type=whole, metavar="N", help="the output of actor N")
    whose.add_argument("--learner", action="store_true", help="the output of the learner")
    whose.add_argument("--log", default="", metavar="NAME", help="e.g. template, or NODE/executor")
    _towards_runs(logs, print_logs)
    stop = commands.add_parser(
        "stop", help="ask a run to finish and save; asked again, it ends at once"
    )
    stop.add_argument("run", metavar="RUN", help=_RUN)
    _towards_runs(stop, stop_run)
    drain = commands.add_parser("drain", help="move the actors of a node to other nodes")
    drain.add_argument("node", metavar="NODE", help="its name, as in artos status")
    _towards_head(drain, drain_node)
    undrain = commands.add_parser("undrain", help="place actors on a drained node again")
    undrain.add_argument("node", metavar="NODE", help="its name, as in artos status")
    _towards_head(undrain, undrain_node)
    top = commands.add_parser("top", help="show nodes and runs live")
    top.set_defaults(run="")
    _towards_runs(top, show_top)
    get = commands.add_parser("get", help="copy a run's files, or what is new of them, from a head")
    get.add_argument("run", metavar="RUN", help="the name of a run on the head")
    get.add_argument("folder", nargs="?", type=Path, metavar="DIR", help="default: RUN, here")
    get.add_argument(
        "--what",
        default="all",
        choices=("all", "checkpoint", "curve"),
        help="all files, only what was learned, or only what curves are drawn from; default: all",
    )
    get.add_argument("-f", "--follow", action="store_true", help="go on until the run is over")
    _towards_head(get, get_run)
    _add_changes(commands)


def _add_changes(commands: argparse._SubParsersAction[Parser]) -> None:
    scale = commands.add_parser("scale", help="change how many actors a live run has")
    scale.add_argument("run", metavar="RUN", help=_RUN)
    scale.add_argument(
        "actors", type=whole, metavar="N", help="number of actors from the next version on"
    )
    _towards_runs(scale, scale_run)
    change = commands.add_parser("set", help="change settings of a live run")
    change.add_argument("run", metavar="RUN", help=_RUN)
    change.add_argument("settings", nargs="+", metavar="NAME=VALUE", help="such as learner.lr=1e-4")
    _towards_runs(change, set_run)


def _towards_runs(parser: Parser, command: Any) -> None:
    add_sources(parser)
    parser.set_defaults(command=command)


def add_sources(parser: Parser) -> None:
    """Add ``--runs``, ``--head``, ``--keys`` and ``--json``; see ``runs_of``."""
    parser.add_argument(
        "--runs",
        type=Path,
        metavar="DIR",
        help="the runs in this folder, even if a head is given; default: runs, if no head is given",
    )
    _add_head(parser)
    add_json(parser)


def _towards_head(parser: Parser, command: Any, *, json: bool = True) -> None:
    _add_head(parser)
    if json:
        add_json(parser)
    parser.set_defaults(command=command)


def _add_head(parser: Parser) -> None:
    parser.add_argument(
        "--head", metavar="ADDRESS", help="tcp://IP:PORT or file:PATH; default: $ARTOS_HEAD"
    )
    parser.add_argument("--keys", type=Path, metavar="DIR", help="default: $ARTOS_KEYS")


def head_of(options: argparse.Namespace, *, patient: bool = True) -> HeadClient:
    """The head that is named by flags or the environment.

    Raises:
        Refused: none is named, or no keys are.
    """
    from deploy.client.head_client import HeadClient  # noqa: PLC0415

    head = options.head or os.environ.get("ARTOS_HEAD")
    keys = options.keys or os.environ.get("ARTOS_KEYS")
    if head and keys:
        return HeadClient(head, Path(keys), patient=patient)
    missing = {"--head tcp://IP:PORT, or set ARTOS_HEAD": head, "--keys, or set ARTOS_KEYS": keys}
    raise Refused([f"give {what}" for what, value in missing.items() if not value])


def runs_of(
    options: argparse.Namespace, run: str = "", *, patient: bool = True
) -> HeadClient | LocalRuns:
    """What answers questions about that run, or about all runs: a head or this machine."""
    from deploy.local.local_runs import LocalRuns, is_run  # noqa: PLC0415

    here = options.runs or is_run(Path(run)) or not os.environ.get("ARTOS_HEAD")
    if options.head is None and here:
        return LocalRuns(options.runs or Path("runs"))
    return head_of(options, patient=patient)


def submit_run(options: argparse.Namespace) -> int:
    """``artos submit``: train on a cluster; with ``--wait`` until the run is over."""
    from deploy.client import submit  # noqa: PLC0415

    wanted = submit.Wanted(
        "" if options.resume else workload_of(options),
        settings_of(options),
        given_seed(options),
        options.deadline,
        options.run_dir,
        options.resume,
        options.placement or "spread",
        tuple(options.where),
        options.packages,
    )
    own = ("workload", "run_dir", "placement", "where", "packages")
    given = options.seed is not None or any(getattr(options, name) for name in own)
    if options.resume and given:
        flags = "--run-dir, --seed, --placement, --where or --packages"
        raise Refused([f"--resume takes no workload, {flags}: the run has its own"])
    with head_of(options) as client:
        sent = submit.submit(client, wanted)
        if not options.wait:
            said = f"submitted {sent['run']}; its folder on the head: {sent['folder']}"
            _show(options, sent, said)
            return ExitStatus.DONE
        note = submit.quiet if options.json else submit.note
        try:
            run = submit.follow(client, sent["run"], note)
        except KeyboardInterrupt:
            left = sent["run"]
            submit.note(f"artos: left {left}, which may go on: see `artos status {left}`")
            return ExitStatus.INTERRUPTED
    if options.json and run.ending:
        print_json(run.ending)
    if run.outcome not in ("done", "interrupted"):
        submit.note(f"artos: run {run.name} {run.outcome}: {run.why}")
    elif not options.json:
        print(printable(submit.outcome_text(run)))
    return ExitStatus.of_outcome(run.outcome)


def _show(options: argparse.Namespace, data: Any, text: str) -> None:
    if options.json:
        print_json(data)
    else:
        print(printable(text))


def list_runs(options: argparse.Namespace) -> int:
    """``artos list``: the runs of this machine or a cluster."""
    from deploy.client import overview  # noqa: PLC0415

    with runs_of(options) as client:
        runs = client.list_runs()
    answer = {"runs": [run.plain for run in runs]}
    _show(options, answer, overview.text(overview.runs(runs, client.nothing)))
    return ExitStatus.DONE


def show_status(options: argparse.Namespace) -> int:
    """``artos status``: nodes and runs, or one run."""
    from deploy.client import overview  # noqa: PLC0415

    with runs_of(options, options.run) as client:
        if options.run:
            run = client.status(options.run)
            answer, picture = run.plain, overview.run(run)
        else:
            cluster = client.cluster()
            answer, picture = cluster.plain, overview.cluster(cluster, client.nothing)
    _show(options, answer, overview.text(picture))
    return ExitStatus.DONE


def show_usage(options: argparse.Namespace) -> int:
    """``artos usage``: what runs have held and used.

    Raises:
        Refused: the records of a run are damaged.
    """
    from deploy.client import bills, overview  # noqa: PLC0415

    prices = bills.Prices.load(options.prices) if options.prices else None
    with runs_of(options, options.run) as client:
        runs = (client.status(options.run),) if options.run else client.cluster().runs
    if damage := [run.damage for run in runs if isinstance(run.damage, str) and run.damage]:
        raise Refused(damage)
    found = [bills.bill(run, prices) for run in runs]
    sums = {"users": bills.by_user(found), "total": bills.total(found)}
    answer = found[0] if options.run else {"runs": found, **sums}
    _show(options, answer, overview.text(bills.table(found, prices)))
    return ExitStatus.DONE


def print_logs(options: argparse.Namespace) -> int:
    """``artos logs``: the messages of a run or of one of its processes."""
    log = "learner" if options.learner else options.log
    log = log if options.actor is None else f"actor-{options.actor}"
    with runs_of(options, options.run) as client:
        ask = partial(client.logs, options.run, log=log)
        pieces = _pieces(ask, follow=options.follow)
        if options.json and options.follow:
            for piece in pieces:
                print_json(piece, indent=-1)
        elif options.json:
            found = [*pieces]
            print_json(found[-1] | {"text": "".join(piece["text"] for piece in found)})
        elif options.follow or options.all:
            for piece in pieces:
                print(printable(piece["text"]), end="", flush=True)
        else:
            text, before = last_lines(ask(-_LAST_OF_LOG))
            if before > 0:
                to_stderr(f"artos: {before:,} bytes before this: --all prints them, too")
            print(printable(text), end="")
    return ExitStatus.DONE


def last_lines(piece: Mapping[str, Any]) -> tuple[str, int]:
    """The whole lines of a log's last piece, and how many bytes of the log are before them."""
    text = piece["text"]
    if piece["next"] > _LAST_OF_LOG:
        text = text.partition("\n")[2] or text
    return text, piece["next"] - len(text.encode())


def _pieces(ask: Callable[[int], dict[str, Any]], *, follow: bool) -> Iterator[dict[str, Any]]:
    """A log from its beginning to where it ends now; ``follow``: until the run is over."""
    end = 0 if follow else ask(-1)["next"]
    offset, more = 0, True
    while more:
        piece = ask(offset)
        yield piece
        offset, text = piece["next"], piece["text"]
        more = not piece["ended"] if follow else bool(text) and offset < end
        if more and not text:
            time.sleep(_FOLLOW_SECONDS)


def stop_run(options: argparse.Namespace) -> int:
    """``artos stop``: have a run finish and save; asked again, it ends at once."""
    with runs_of(options, options.run) as client:
        run = client.stop(options.run)
    _show(options, run.plain, f"{run.name}: {run.outcome or run.state}")
    return ExitStatus.DONE


def drain_node(options: argparse.Namespace) -> int:
    """``artos drain``: move the actors of a node to other nodes."""
    with head_of(options) as client:
        answer = client.drain(options.node)
    text = f"{answer['node']} gets no new actors; moving to other nodes: {answer['actors']}"
    _show(options, answer, text)
    return ExitStatus.DONE


def undrain_node(options: argparse.Namespace) -> int:
    """``artos undrain``: place actors on a drained node again."""
    with head_of(options) as client:
        answer = client.undrain(options.node)
    _show(options, answer, f"{answer['node']} gets actors again")
    return ExitStatus.DONE


def get_run(options: argparse.Namespace) -> int:
    """``artos get``: copy a run's files from the head."""
    from deploy.client.fetch import Fetched, fetch, follow  # noqa: PLC0415

    def text(fetched: Fetched) -> str:
        files = f"{fetched.files} file{'s' * (fetched.files != 1)}"
        return f"{files}, {fetched.bytes / 1e6:,.1f} MB, came into {fetched.folder}"

    with head_of(options) as client:
        target = options.folder or Path(options.run).name
        if options.follow:
            say = (lambda fetched: None) if options.json else (lambda f: to_stderr(text(f)))
            fetched = follow(client, options.run, Path(target), options.what, _TOP_SECONDS, say)
        else:
            fetched = fetch(client, options.run, Path(target), options.what)
    _show(options, fetched, text(fetched))
    return ExitStatus.DONE


def scale_run(options: argparse.Namespace) -> int:
    """``artos scale``: change how many actors a live run has."""
    with runs_of(options, options.run) as client:
        answer = client.scale(options.run, options.actors)
    text = f"{answer['actors']} of {answer['most']} registered actors from the next version on"
    _show(options, answer, text)
    return ExitStatus.DONE


def set_run(options: argparse.Namespace) -> int:
    """``artos set``: change settings of a live run."""
    from artos.specs.settings import convert  # noqa: PLC0415

    given = pairs("artos set", options.settings)
    switches = {"true": "1", "false": "0"}
    settings = {n: convert(n, switches.get(v, v), float) for n, v in given.items()}
    with runs_of(options, options.run) as client:
        answer = client.set(options.run, settings)
    now = ", ".join(f"{name}={value:g}" for name, value in answer["settings"].items())
    number = answer["configuration"]
    _show(options, answer, f"configuration {number}, from the next invocation on: {now}")
    return ExitStatus.DONE


def show_top(options: argparse.Namespace) -> int:
    """``artos top``: nodes and runs, live in a terminal."""
    from deploy.client import overview  # noqa: PLC0415

    if options.json or not sys.stdout.isatty():
        return show_status(options)
    with runs_of(options, patient=False) as client:
        overview.live(client.cluster, _TOP_SECONDS, client.nothing)
    return ExitStatus.DONE
