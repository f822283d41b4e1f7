"""``artos eval RUN``: plays whole episodes with the newest or best weights of a run."""

from __future__ import annotations

import argparse
import sys
from contextlib import nullcontext, redirect_stdout
from pathlib import Path

from artos.runs.exit_status import ExitStatus
from artos.system.printable import printable
from deploy.cli.common import (
    add_deadline,
    add_env_args,
    add_finished,
    add_json,
    add_trust,
    env_args_of,
    folder_of_run,
    print_json,
)
from deploy.cli.parser import Parser, whole


def add_to(parser: Parser) -> None:
    """Add the flags of ``artos eval``."""
    add_finished(parser)
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
    parser.add_argument("--env", default="", help="play in another environment like the run's")
    add_env_args(parser)
    parser.add_argument(
        "--video", type=Path, metavar="DIR", help="write a GIF of each episode into this folder"
    )
    add_playing(parser)
    parser.set_defaults(command=play)


def add_playing(parser: Parser) -> None:
    """Add the flags of commands that play with what a run has learned."""
    add_deadline(parser, 300.0, "give up if no episode ends for this long")
    parser.add_argument(
        "--code",
        type=Path,
        metavar="DIR",
        help="the folder of the run's file, if it has moved or was sent to a head",
    )
    add_trust(parser)
    add_json(parser)


def play(options: argparse.Namespace) -> int:
    """``artos eval``: play episodes with what a run has learned."""
    from artos.trained.trained import load  # noqa: PLC0415

    folder = folder_of_run(options)
    # Output of user code in this process must not mix with the result.
    with redirect_stdout(sys.stderr) if options.json else nullcontext():
        trained = load(folder, best=options.best, code=options.code, trust=options.trust)
        for note in trained.notes:
            print(f"note: {printable(note)}", file=sys.stderr)
        from artos.specs.address import address  # noqa: PLC0415
        from deploy.display.counted_view import CountedView  # noqa: PLC0415

        env = address(options.env or trained.spec.name, env_args_of(options))
        with CountedView(sys.stderr, "episodes", options.episodes, quiet=options.json) as view:
            evaluation = trained.evaluate(
                options.episodes,
                greedy=options.greedy,
                seed=options.seed,
                env=env,
                video=options.video,
                deadline=options.deadline,
                note=view.show,
            )
    from deploy.display import evaluation_table  # noqa: PLC0415

    if options.json:
        print_json({"run": trained.name, "steps": trained.steps, **evaluation.plain()})
    else:
        print(printable(evaluation_table.text(trained, evaluation)))
    return ExitStatus.DONE
