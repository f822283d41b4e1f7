"""What users ask a head: submit, list, status, logs, stop, drain, scale, top."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from artos.errors import Refused
from artos.printable import printable
from deploy.commands.common import (
    DONE,
    add_json,
    add_workload,
    print_json,
    settings_of,
    workload_of,
)
from deploy.commands.parser import Parser, whole

if TYPE_CHECKING:
    from deploy.head_client import HeadClient

_FOLLOW_SECONDS = 0.5
_TOP_SECONDS = 1.0
_LAST_OF_LOG = -20_000


def add_to(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add these commands; all but ``scale`` need a head."""
    submit = commands.add_parser("submit", help="train on a cluster")
    add_workload(submit)
    submit.add_argument(
        "--run-dir", default="", metavar="DIR", help="a folder in the head's folder of runs"
    )
    submit.add_argument("--resume", default="", metavar="RUN", help="continue a run of the head's")
    submit.add_argument("--placement", default="spread", choices=("spread", "pack"))
    submit.add_argument("--wait", action="store_true", help="see it through; Ctrl-C stops the run")
    _towards_head(submit, _submit, json=False)
    _towards_head(commands.add_parser("list", help="the runs of a cluster"), _list)
    status = commands.add_parser("status", help="nodes and runs of a cluster, or one run")
    status.add_argument("run", nargs="?", default="", metavar="RUN")
    _towards_head(status, _status)
    logs = commands.add_parser("logs", help="what a run of a cluster says")
    logs.add_argument("run", metavar="RUN")
    logs.add_argument("-f", "--follow", action="store_true", help="until the run is over")
    _towards_head(logs, _logs)
    stop = commands.add_parser("stop", help="have a run finish and save; again: end at once")
    stop.add_argument("run", metavar="RUN")
    _towards_head(stop, _stop)
    drain = commands.add_parser("drain", help="move the actors of a node elsewhere")
    drain.add_argument("node", metavar="NODE")
    _towards_head(drain, _drain)
    _towards_head(commands.add_parser("top", help="a live view of a cluster"), _top)
    scale = commands.add_parser("scale", help="change how many actors a live run has")
    scale.add_argument("run", metavar="RUN", help="a live run's folder, or a run of the head's")
    scale.add_argument("actors", type=whole, metavar="N", help="actors from the next version on")
    _towards_head(scale, _scale)


def _towards_head(parser: Parser, command: Any, *, json: bool = True) -> None:
    parser.add_argument("--head", metavar="tcp://IP:PORT", help="default: $ARTOS_HEAD")
    parser.add_argument("--keys", type=Path, metavar="DIR", help="default: $ARTOS_KEYS")
    if json:
        add_json(parser)
    parser.set_defaults(command=command)


def _client(options: argparse.Namespace) -> HeadClient:
    from deploy.head_client import HeadClient  # noqa: PLC0415

    head = options.head or os.environ.get("ARTOS_HEAD")
    keys = options.keys or os.environ.get("ARTOS_KEYS")
    if head and keys:
        return HeadClient(head, Path(keys))
    missing = {"--head tcp://IP:PORT, or set ARTOS_HEAD": head, "--keys, or set ARTOS_KEYS": keys}
    raise Refused([f"give {what}" for what, value in missing.items() if not value])


def _submit(options: argparse.Namespace) -> int:
    from deploy import submit  # noqa: PLC0415

    wanted = submit.Wanted(
        "" if options.resume else workload_of(options), settings_of(options), options.seed,
        options.deadline, options.run_dir, options.resume, options.placement,
    )  # fmt: skip
    if options.resume and (options.workload or options.run_dir):
        raise Refused(["--resume takes no workload and no --run-dir: the run knows its own"])
    with _client(options) as client:
        run = submit.submit(client, wanted)
        if not options.wait:
            _show(options, run, f"submitted {run['run']}; its folder on the head: {run['folder']}")
            return DONE
        note = submit.quiet if options.json else submit.note
        return _waited(options, submit.follow(client, run["run"], note))


def _waited(options: argparse.Namespace, status: dict[str, Any]) -> int:
    from deploy import submit  # noqa: PLC0415

    outcome, why = status["outcome"], status["why"]
    if options.json and status["summary"] is not None:
        print_json(status["summary"])
    if outcome not in ("done", "interrupted"):
        submit.note(f"artos: run {status['name']} {outcome}: {why}")
    elif not options.json:
        print(printable(submit.last_words(status)))
    return submit.exit_status(outcome)


def _show(options: argparse.Namespace, data: Any, text: str) -> None:
    if options.json:
        print_json(data)
    else:
        print(printable(text))


def _list(options: argparse.Namespace) -> int:
    from deploy import overview  # noqa: PLC0415

    with _client(options) as client:
        answer = client.ask("list")
    _show(options, answer, overview.text(overview.runs(answer["runs"])))
    return DONE


def _status(options: argparse.Namespace) -> int:
    from deploy import overview  # noqa: PLC0415

    with _client(options) as client:
        answer = client.ask("status", options.run)
    picture = overview.run(answer) if options.run else overview.cluster(answer)
    _show(options, answer, overview.text(picture))
    return DONE


def _logs(options: argparse.Namespace) -> int:
    offset = 0 if options.follow or options.json else _LAST_OF_LOG
    with _client(options) as client:
        while True:
            piece = client.ask("logs", options.run, offset)
            offset, more = piece["next"], options.follow and not piece["ended"]
            if options.json:
                print_json(piece, indent=-1 if options.follow else 1)
            else:
                print(printable(piece["text"]), end="", flush=True)
            if not more:
                return DONE
            if not piece["text"]:
                time.sleep(_FOLLOW_SECONDS)


def _stop(options: argparse.Namespace) -> int:
    with _client(options) as client:
        run = client.ask("stop", options.run)
    _show(options, run, f"{run['name']}: {run['state']}")
    return DONE


def _drain(options: argparse.Namespace) -> int:
    with _client(options) as client:
        answer = client.ask("drain", options.node)
    text = f"{answer['actors']} actors of {answer['node']} go elsewhere, and no others come"
    _show(options, answer, text)
    return DONE


def _scale(options: argparse.Namespace) -> int:
    answer = _scaled(options)
    text = f"{answer['actors']} of {answer['most']} registered actors from the next version on"
    _show(options, answer, text)
    return DONE


def _scaled(options: argparse.Namespace) -> dict[str, Any]:
    here = Path(options.run).is_dir() or not os.environ.get("ARTOS_HEAD")
    if options.head is None and here:
        from deploy import control  # noqa: PLC0415

        answer = control.scale(Path(options.run), options.actors)
        return {"actors": answer.actors, "most": answer.most}
    with _client(options) as client:
        return client.ask("scale", options.run, options.actors)


def _top(options: argparse.Namespace) -> int:
    from deploy import overview  # noqa: PLC0415

    with _client(options) as client:
        if options.json or not sys.stdout.isatty():
            return _once(options, client.ask("status"))
        overview.live(lambda: client.ask("status"), _TOP_SECONDS)
    return DONE


def _once(options: argparse.Namespace, answer: dict[str, Any]) -> int:
    from deploy import overview  # noqa: PLC0415

    _show(options, answer, overview.text(overview.cluster(answer)))
    return DONE
