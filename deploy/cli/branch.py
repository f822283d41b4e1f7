"""``artos branch``: continue the episode of a live actor many times."""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path
from typing import Any

from artos.errors import Refused
from artos.runs.exit_status import ExitStatus
from artos.system.printable import printable
from deploy.cli.common import add_deadline, add_json, folder_of_run, print_json
from deploy.cli.parser import Parser, whole

_END = "END"
_ELSEWHERE = (
    "{}: an episode is continued on the machine of the head, where the folder of its live run is: "
    "run this command there, and give that folder"
)


def add_to(parser: Parser) -> None:
    """Add the flags of ``artos branch``."""
    parser.add_argument(
        "run", metavar="RUN", help="a live run's folder on this machine, or its name in --runs"
    )
    parser.add_argument(
        "--runs", type=Path, default=Path("runs"), metavar="DIR", help="default: runs"
    )
    parser.add_argument("--actor", type=whole, default=0, metavar="N", help="default: 0")
    parser.add_argument(
        "--env", type=whole, default=0, metavar="N", help="which of its environments; default: 0"
    )
    parser.add_argument(
        "--times", type=whole, required=True, metavar="K", help="how many continuations"
    )
    parser.add_argument(
        "--until", default=_END, metavar="END|STEPS", help="default: END, that of the episode"
    )
    parser.add_argument("--seed", type=whole, default=0, metavar="N", help="of the continuations")
    parser.add_argument(
        "--greedy", action="store_true", help="take the best action; default: as in training"
    )
    parser.add_argument(
        "--with", dest="other", metavar="RUN",
        help="act with the newest weights of this run; default: with those that the actor has",
    )  # fmt: skip
    parser.add_argument(
        "--best",
        action="store_true",
        help="act with the version with the best evaluation (--set evaluate_every=N), of --with or "
        "of RUN itself",
    )
    add_deadline(parser, 600.0, "after which what has not ended is ended")
    add_json(parser)
    parser.set_defaults(command=branch_run)


def branch_run(options: argparse.Namespace) -> int:
    """``artos branch``: continue an episode, and show what came of it."""
    from deploy.local.branching import branch  # noqa: PLC0415

    until = None
    if options.until != _END:
        if not options.until.isdecimal():
            raise Refused([f"--until {options.until}: give a number of steps, or {_END}"])
        until = int(options.until)
    if "@" in options.run:
        raise Refused([_ELSEWHERE.format(options.run)])
    other = None if options.other is None else folder_of_run(options, run=options.other)
    found = branch(
        folder_of_run(options), options.actor, options.times, env=options.env, until=until,
        seed=options.seed, greedy=options.greedy, weights=other, best=options.best,
        seconds=options.deadline,
    )  # fmt: skip
    if options.json:
        print_json(found)
    else:
        print(_text(found))
    failed = any(child["fault"] for child in found["children"])
    return ExitStatus.FAILED if failed else ExitStatus.DONE


def _text(found: dict[str, Any]) -> str:
    children, so_far = found["children"], found["so_far"]
    played = [child for child in children if not child["fault"]]
    others = {(each["version"], Path(each["weights"]).name) for each in played if each["weights"]}
    lines = [
        f"actor {found['actor']} at row {found['row']}, version {found['version']}: "
        f"{so_far['steps']} steps into an episode, return {so_far['return']:g} so far",
        f"{len(played)} of {len(children)} continuations, by {found['by']}"
        + "".join(f", with version {version} of {run}" for version, run in others),
        "",
        f"{'child':>5} {'return':>10} {'steps':>7}",
    ]
    for number, child in enumerate(children):
        if child["fault"]:
            lines.append(f"{number:>5} {printable(child['fault'].strip().splitlines()[-1])}")
        else:
            end = "" if child["ended"] else "  not at its end"
            lines.append(f"{number:>5} {child['return']:>10g} {child['steps']:>7}{end}")
    if played:
        returns = [child["return"] for child in played]
        lines += ["", f"return  mean {statistics.fmean(returns):g}, best {max(returns):g}"]
    return "\n".join(lines)
