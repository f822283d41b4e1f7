"""The ``artos`` command: parses, runs a command, turns errors into a message and an exit status.

Exit status: 0 done, 1 error, 2 refused before anything was started, 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext, redirect_stdout, suppress
from pathlib import Path

from artos.errors import ArtosError, Refused
from artos.runs.exit_status import REFUSALS, ExitStatus
from artos.system import limits, streams
from artos.system.logging_setup import logging_to, to_stderr
from artos.system.printable import printable
from artos.system.shm import shm_root
from artos.system.signals import forget_interrupt
from deploy.cli import (
    bench,
    branch,
    check,
    cluster,
    completion,
    daemons,
    dashboard,
    engines,
    evaluate,
    metrics,
    plot,
    pool,
    record,
    replay,
    setup,
    simulate,
    sweep,
    trace,
    track,
    why,
)
from deploy.cli.common import (
    add_trust,
    add_workload,
    given_deadline,
    given_seed,
    print_json,
    settings_of,
    workload_of,
)
from deploy.cli.parser import Parser, ShowVersion, parse


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    return reported(_parsed, arguments)


def reported(
    parsed: Callable[[Sequence[str]], argparse.Namespace], arguments: Sequence[str] | None = None
) -> int:
    """Run the ``command`` of the parsed arguments; returns its exit status, and says its errors.

    ``arguments`` are by default those of this process. The options' ``starts`` tells whether the
    command starts something, so that a refusal says that it did not.
    """
    options = argparse.Namespace()
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    streams.complete()
    try:
        if arguments is None:
            streams.in_utf8(sys.argv)
        options = parsed(sys.argv[1:] if arguments is None else arguments)
        options.is_process = arguments is None
        command: Callable[[argparse.Namespace], int] = options.command
        with logging_to(to_stderr):
            status = command(options)
            sys.stdout.flush()
            return status
    except REFUSALS as error:
        faults = error.faults if isinstance(error, Refused) else (str(error),)
        starts = getattr(options, "starts", False)
        if len(faults) == 1 and not starts:
            _complain(*faults)
        else:  # commands that start nothing need not say that nothing started
            title = "refused, nothing was started:" if starts else "refused:"
            _complain(title, *(f"  - {fault}" for fault in faults))
        return ExitStatus.REFUSED
    except ArtosError as error:
        _complain(f"{type(error).__name__}: {error}")
        return ExitStatus.FAILED
    except BrokenPipeError:
        # The reader of our output has closed it; the interpreter's last flush must not fail, too.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitStatus.DONE
    except OSError as error:  # a full disk, a limit, rights: no fault of the code's
        _complain(f"{type(error).__name__}: {error}")
        return ExitStatus.FAILED
    except KeyboardInterrupt:
        forget_interrupt()
        _complain("stopped at once")
        return ExitStatus.INTERRUPTED
    finally:
        signal.signal(signal.SIGTERM, before)


def _complain(*lines: str) -> None:
    print("artos: " + printable("\n".join(lines)), file=sys.stderr)


def _parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = Parser(
        prog="artos", description="Buffer-centric, trigger-driven reinforcement learning."
    )
    parser.add_argument("--version", action=ShowVersion)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_run(commands.add_parser("run", help="train, on this machine"))
    explain = commands.add_parser("explain", help="print a workload's wiring; runs nothing")
    add_workload(explain)
    explain.set_defaults(command=explain_workload)
    check.add_to(commands.add_parser("check", help="try an environment out; trains nothing"))
    evaluate.add_to(commands.add_parser("eval", help="play episodes with what a run has learned"))
    record.add_record(commands.add_parser("record", help="write episodes of a run as a data set"))
    record.add_rescore(commands.add_parser("rescore", help="compute a data set's rewards anew"))
    branch.add_to(commands.add_parser("branch", help="continue the episode of a live actor"))
    clean = commands.add_parser("clean", help="remove shared memory and images of killed runs")
    clean.add_argument(
        "runs",
        nargs="*",
        type=Path,
        metavar="RUN",
        help="a run's folder: remove its images even if the machine was restarted since",
    )
    clean.add_argument("--json", action="store_true", help="print the result as JSON")
    clean.set_defaults(command=clean_up)
    doctor = commands.add_parser("doctor", help="show what this machine can do for elastic actors")
    doctor.add_argument("--json", action="store_true", help="print the result as JSON")
    doctor.set_defaults(command=examine_machine)
    pool.add_to(commands.add_parser("pool", help="show who holds this machine's devices and slots"))
    sweep.add_to(commands.add_parser("sweep", help="run a grid of settings with several seeds"))
    simulate.add_to(commands.add_parser("simulate", help="try a cluster that you do not have"))
    metrics.add_to(commands.add_parser("metrics", help="print or serve numbers for Prometheus"))
    dashboard.add_to(commands.add_parser("dashboard", help="show runs and clusters in a browser"))
    trace.add_to(commands.add_parser("trace", help="write what each member of a run did when"))
    why.add_to(commands.add_parser("why", help="say what holds a run up, and what to set"))
    replay.add_to(commands.add_parser("replay", help="repeat a run bit for bit, in one process"))
    plot.add_plot(commands.add_parser("plot", help="draw runs as figures, with captions"))
    plot.add_report(commands.add_parser("report", help="write all about a run as one page"))
    track.add_to(commands.add_parser("track", help="send a run to W&B, MLflow or Trackio"))
    cluster.add_to(commands)
    engines.add_up(
        commands.add_parser("up", help="start a cluster on Slurm, Kubernetes, Ray or by ssh")
    )
    engines.add_down(commands.add_parser("down", help="end a cluster that `up` has started"))
    daemons.add_head(commands.add_parser("head", help="run the head of a cluster"))
    daemons.add_worker(commands.add_parser("worker", help="run a worker node of a cluster"))
    _add_keys(commands.add_parser("keys", help="make, add or revoke the keys of a cluster"))
    setup.add_to(commands.add_parser("setup", help="install CRIU, or make this node a service"))
    bench.add_to(
        commands.add_parser("bench", help="measure ARTOS and other libraries in the same run")
    )
    completion.add_to(commands, parser)
    return parse(parser, commands.choices, arguments)


def _add_run(parser: Parser) -> None:
    add_workload(parser)
    parser.add_argument(
        "--run-dir", type=Path, metavar="DIR", help="default: runs/ALGO-ENV-seedS-N"
    )
    parser.add_argument("--inline", action="store_true", help="one process, deterministic by seed")
    parser.add_argument(
        "--resume", type=Path, metavar="RUN", help="continue the run in this folder"
    )
    add_trust(parser)
    track.add_track(parser)
    parser.set_defaults(command=train, starts=True)


def _add_keys(parser: Parser) -> None:
    parser.add_argument("folder", type=Path, metavar="DIR", help="created if it does not exist")
    for role, does in (("user", "submits, queries, scales and stops"), ("node", "is a worker")):
        parser.add_argument(
            f"--{role}",
            metavar="NAME",
            action="append",
            default=[],
            help=f"make a key for a {role}, which {does}; may be repeated",
        )
    parser.add_argument("--revoke", action="store_true", help="revoke these keys, do not make them")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.set_defaults(command=change_keys)


def train(options: argparse.Namespace) -> int:
    """``artos run``: a new run, or one that is continued, on this machine."""
    limits.check()
    shm_root()  # refused at once, not after the workload's import
    settings = settings_of(options)
    wanted = dict(settings)
    if options.resume is not None:
        from artos.runs.run_config import RunConfig, read  # noqa: PLC0415

        with suppress(ArtosError, OSError):  # refused below, in its words
            wanted = read(options.resume, RunConfig)[1].settings | settings
    if wanted.get("park") == "checkpoint" or wanted.get("start") == "clone":
        _take_rights(options)
    # Output of user code in this process must not mix with the result.
    with redirect_stdout(sys.stderr) if options.json else nullcontext():
        if options.resume is None:
            from head.run.request import Request  # noqa: PLC0415

            request = Request(
                workload_of(options), settings, given_seed(options), options.run_dir,
                options.inline, options.json, deadline=given_deadline(options),
            )  # fmt: skip
            with request.preload() as preloaded:
                # Imported only now, while another process imports the workload's code.
                from deploy.local.run import run  # noqa: PLC0415

                summary = run(request, preloaded, options.track)
        else:
            if options.workload or options.run_dir:
                raise Refused(["--resume takes no workload and no --run-dir: the run has its own"])
            from deploy.local.run import resume  # noqa: PLC0415

            summary = resume(
                options.resume, settings, quiet=options.json, trust=options.trust,
                track=options.track, deadline=options.deadline, seed=options.seed,
                inline=options.inline,
            )  # fmt: skip
    if options.json:
        print_json(summary.plain())
    return ExitStatus.of_outcome(summary.outcome)


def _take_rights(options: argparse.Namespace) -> None:
    """Go on as the same command with the rights that images need, if it lacks them."""
    from workers.checkpoint.own_rights import with_own_rights  # noqa: PLC0415

    if options.is_process and (entry := with_own_rights()):
        os.execv(entry[0], [*entry, sys.executable, *sys.orig_argv[1:]])


def explain_workload(options: argparse.Namespace) -> int:
    """``artos explain``: how a workload is wired; runs nothing."""
    import msgspec  # noqa: PLC0415

    from head.run.request import reference_of  # noqa: PLC0415
    from triggers.explain import explain  # noqa: PLC0415
    from triggers.registration import prepare  # noqa: PLC0415
    from workers.executor import build  # noqa: PLC0415

    reference = reference_of(workload_of(options), settings_of(options), Path.cwd())
    registration = prepare(
        reference, given_seed(options), deadline=given_deadline(options), host_faults=build.faults
    )
    if options.json:
        print_json({**msgspec.to_builtins(registration.plan), "settings": registration.settings})
    else:
        print(explain(registration.plan, registration.table, registration.settings))
    return ExitStatus.DONE


def clean_up(options: argparse.Namespace) -> int:
    """``artos clean``: remove what killed runs have left behind."""
    from artos.pool import view  # noqa: PLC0415
    from artos.runs import cleanup  # noqa: PLC0415
    from deploy.client import copies  # noqa: PLC0415

    removed = cleanup.clean(options.runs)
    try:
        removed += copies.tidy()
        removed += view.clean()
    finally:  # even if the pool cannot be removed, say what was
        if options.json:
            print_json({"removed": [str(path) for path in removed]})
        else:
            print("\n".join(f"removed {path}" for path in removed) or "nothing was left behind")
    return ExitStatus.DONE


def examine_machine(options: argparse.Namespace) -> int:
    """``artos doctor``: what this machine can do for elastic actors."""
    from workers.host import doctor  # noqa: PLC0415

    _take_rights(options)  # it tells of what runs with images have here
    report = doctor.examine()
    if options.json:
        print_json(report)
    else:
        print(doctor.text(report))
    return ExitStatus.DONE


def change_keys(options: argparse.Namespace) -> int:
    """``artos keys``: make or revoke keys."""
    from deploy.cli import keys  # noqa: PLC0415

    report = keys.change(options.folder, options.user, options.node, revoke=options.revoke)
    if options.json:
        print_json(report)
    else:
        print(keys.text(report))
    return ExitStatus.DONE
