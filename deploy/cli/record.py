"""``artos record`` and ``artos rescore``: data sets from runs."""

from __future__ import annotations

import argparse
import sys
from contextlib import nullcontext, redirect_stdout
from pathlib import Path

import msgspec

from artos.runs.exit_status import ExitStatus
from artos.system.printable import printable
from deploy.cli.common import add_finished, add_json, folder_of_run, print_json
from deploy.cli.evaluate import add_playing
from deploy.cli.parser import Parser, whole


def add_record(parser: Parser) -> None:
    """Add the flags of ``artos record``."""
    add_finished(parser)
    _add_output(parser, "default: RUN.npz here")
    parser.add_argument(
        "--episodes", type=whole, default=10, metavar="N", help="whole episodes; default: 10"
    )
    parser.add_argument(
        "--greedy", action="store_true", help="take the best action; default: as in training"
    )
    parser.add_argument(
        "--best",
        action="store_true",
        help="play the version with the best evaluation (--set evaluate_every=N); default: newest",
    )
    parser.add_argument("--seed", type=whole, default=1, metavar="N", help="default: 1")
    add_playing(parser)
    parser.set_defaults(command=record)


def add_rescore(parser: Parser) -> None:
    """Add the flags of ``artos rescore``."""
    add_finished(parser, "; or a data set, FILE.npz")
    parser.add_argument(
        "reward", metavar="FILE.py:REWARD", help="a function of rows that returns their rewards"
    )
    parser.add_argument(
        "--policy", default="", metavar="NAME", help="the rows of its agents, where several play"
    )
    _add_output(parser, "default: RUN-rescored.npz here")
    add_json(parser)
    parser.set_defaults(command=rescore)


def _add_output(parser: Parser, default: str) -> None:
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE.npz", help=f"where to write it; {default}"
    )


def record(options: argparse.Namespace) -> int:
    """``artos record``: play episodes with what a run has learned, and keep their rows."""
    from artos.runs.data_sets import see_free  # noqa: PLC0415
    from artos.trained.trained import load  # noqa: PLC0415

    folder = folder_of_run(options)
    path = options.output or Path(f"{folder.resolve().name}.npz")
    see_free(path)
    # Output of user code in this process must not mix with the result.
    with redirect_stdout(sys.stderr) if options.json else nullcontext():
        trained = load(folder, best=options.best, code=options.code, trust=options.trust)
        for note in trained.notes:
            print(f"note: {printable(note)}", file=sys.stderr)
        from deploy.display.counted_view import CountedView  # noqa: PLC0415

        with CountedView(sys.stderr, "episodes", options.episodes, quiet=options.json) as view:
            recorded = trained.record(
                path, options.episodes, greedy=options.greedy, seed=options.seed,
                deadline=options.deadline, note=view.show,
            )  # fmt: skip
    if options.json:
        more = {"mean_return": recorded.mean_return, "by_agent": recorded.by_agent}
        print_json({"run": trained.name, **msgspec.to_builtins(recorded), **more})
    else:
        each = [f"{agent} {mean:.4g}" for agent, mean in recorded.by_agent.items()]
        mean, what = ", ".join(each) or f"{recorded.mean_return:.4g}", "games" * bool(each)
        print(
            printable(
                f"{path}: {recorded.episodes} {what or 'episodes'} in {recorded.rows:,} rows, "
                f"mean return {mean} as stored"
            )
        )
    return ExitStatus.DONE


def rescore(options: argparse.Namespace) -> int:
    """``artos rescore``: write rows of a run, or of a data set, with other rewards."""
    from artos.runs.rescoring import rescore as rescored  # noqa: PLC0415

    source = Path(options.run)
    if not (source.suffix == ".npz" and source.exists()):
        source = folder_of_run(options)
    path = options.output or Path(f"{source.resolve().name.removesuffix('.npz')}-rescored.npz")
    with redirect_stdout(sys.stderr) if options.json else nullcontext():
        found = rescored(source, options.reward, path, options.policy)
    if options.json:
        print_json(msgspec.to_builtins(found))
    else:
        print(
            printable(
                f"{path}: {found.transitions:,} transitions in {found.rows:,} rows, mean reward "
                f"{found.mean:.4g} (was {found.mean_before:.4g})"
            )
        )
    return ExitStatus.DONE
