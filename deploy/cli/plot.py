"""``artos plot`` and ``artos report``: figures of runs, and one file that tells all of one run."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path

from artos.errors import Refused
from artos.runs.exit_status import ExitStatus
from artos.system.logging_setup import to_stderr
from artos.system.printable import one_line, printable
from deploy.cli.common import add_finished, add_json, folder_of_run, print_json, writing
from deploy.cli.parser import Parser

_CAPTIONS = "captions.md"


def add_plot(parser: Parser) -> None:
    """Add the flags of ``artos plot``."""
    parser.add_argument(
        "plotted",
        nargs="+",
        metavar="RUN",
        help="folders of runs, their names in --runs, or RUN@HEAD, one of a head",
    )
    parser.add_argument(
        "--runs", type=Path, default=Path("runs"), metavar="DIR", help="default: runs"
    )
    parser.add_argument(
        "--by",
        choices=("run", "seed"),
        default="run",
        help="seed: runs that differ in their seed alone are one curve. default: run",
    )
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("figures"), metavar="DIR",
        help="default: figures",
    )  # fmt: skip
    add_json(parser)
    parser.set_defaults(command=plot)


def add_report(parser: Parser) -> None:
    """Add the flags of ``artos report``."""
    add_finished(parser)
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="default: RUN-report.html here"
    )
    add_json(parser)
    parser.set_defaults(command=make_report)


def plot(options: argparse.Namespace) -> int:
    """``artos plot``: figures as SVG and PNG, and their captions."""
    from deploy.api.sweeping import without_files  # noqa: PLC0415
    from deploy.client.copies import local  # noqa: PLC0415
    from deploy.figures.questions import answers  # noqa: PLC0415
    from deploy.figures.read_run import ReadRun, by_run, by_seed, readable  # noqa: PLC0415
    from deploy.local.local_runs import folder_of  # noqa: PLC0415

    here = [local(name, "records") for name in without_files(options.plotted)]
    folders = dict.fromkeys(folder_of(name, options.runs).resolve() for name in here)
    left_out = list[str]()
    runs = readable(map(ReadRun, folders), left_out.append)
    found = answers(by_seed(runs) if options.by == "seed" else by_run(runs), left_out.append)
    if not found:
        nothing = "these runs have no episode yet, and have learned from nothing"
        raise Refused([nothing, *left_out])
    captions = []
    with writing("-o", options.output):
        options.output.mkdir(parents=True, exist_ok=True)
        for answer in found:
            for kind, data in answer.files("svg", "png").items():
                (options.output / f"{answer.name}.{kind}").write_bytes(data)
            caption = _in_markdown(answer.caption)
            captions.append(f"## {answer.question}\n\n`{answer.name}`: {caption}\n")
        if left_out:
            items = "".join(f"- {_in_markdown(one_line(why))}\n" for why in left_out)
            captions.append(f"## Left out\n\n{items}")
        (options.output / _CAPTIONS).write_text("\n".join(captions), encoding="utf-8")
    if options.json:
        told = [{"name": a.name, "question": a.question, "caption": a.caption} for a in found]
        print_json({"folder": str(options.output), "figures": told, "left_out": left_out})
    else:
        for answer in found:
            print(printable(f"{options.output / answer.name}.svg, .png: {answer.question}"))
        print(printable(f"captions: {options.output / _CAPTIONS}"))
    return _status(left_out)


def make_report(options: argparse.Namespace) -> int:
    """``artos report``: one page of HTML."""
    from deploy.figures.report import report  # noqa: PLC0415

    folder = folder_of_run(options, "records")
    path = options.output or Path(f"{folder.resolve().name}-report.html")
    left_out = list[str]()
    page = report(folder, left_out.append)
    with writing("-o", path):
        path.write_text(page, encoding="utf-8")
    if options.json:
        print_json({"file": str(path), "left_out": left_out})
    else:
        print(printable(f"{path}: open it in a browser; it needs no other file"))
    return _status(left_out)


def _status(left_out: Sequence[str]) -> ExitStatus:
    """That of a command that wrote what it could, once it has said what it left out."""
    for why in left_out:
        to_stderr(f"artos: left out: {why}")
    return ExitStatus.FAILED if left_out else ExitStatus.DONE


def _in_markdown(text: str) -> str:
    """Others' text, which is shown as it is, and is neither Markdown nor HTML nor mathematics."""
    return re.sub(r"[\\`*\[\]#|~$]|(?<![^\W_])_|_(?![^\W_])", r"\\\g<0>", escape(text, quote=False))
