"""The ``artos`` command: parses, calls, and turns errors into one message and an exit status.

Exit status: 0 done, 1 error, 2 refused before anything was started, 130 interrupted.
"""

from __future__ import annotations

import argparse
import importlib
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import Any

from artos.errors import ArtosError, CheckpointFault, Refused, RunExists, ShmTooSmall

DONE, ERROR, REFUSED, INTERRUPTED = 0, 1, 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        options = _parser().parse_args(arguments)
        command: Callable[[argparse.Namespace], int] = options.command
        return command(options)
    except (Refused, RunExists, ShmTooSmall, CheckpointFault) as error:
        faults = error.faults if isinstance(error, Refused) else (str(error),)
        _complain("refused, nothing was started:", *(f"  - {fault}" for fault in faults))
        return REFUSED
    except ArtosError as error:
        _complain(f"{type(error).__name__}: {error}")
        return ERROR
    except KeyboardInterrupt:
        _complain("stopped at once")
        return INTERRUPTED
    finally:
        signal.signal(signal.SIGTERM, before)


def _complain(*lines: str) -> None:
    print("artos: " + "\n".join(lines), file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="artos", description="Buffer-centric, trigger-driven reinforcement learning."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_run(commands.add_parser("run", help="train, on this machine"))
    _add_explain(commands.add_parser("explain", help="print a workload's wiring; runs nothing"))
    clean = commands.add_parser("clean", help="remove what killed runs left in shared memory")
    clean.add_argument("--json", action="store_true", help="print the result as JSON")
    clean.set_defaults(command=_clean)
    doctor = commands.add_parser("doctor", help="what this machine can do for elastic actors")
    doctor.add_argument("--json", action="store_true", help="print the result as JSON")
    doctor.set_defaults(command=_doctor)
    scale = commands.add_parser("scale", help="change how many actors a live run has")
    scale.add_argument("run", type=Path, metavar="RUN", help="the folder of a live run")
    scale.add_argument("actors", type=int, metavar="N", help="actors from the next version on")
    scale.add_argument("--json", action="store_true", help="print the result as JSON")
    scale.set_defaults(command=_scale)
    bench = commands.add_parser("bench", help="measure ours against rivals in the same run")
    bench.add_argument("name", help="buffer, triggers, throughput, elasticity or all")
    bench.add_argument("--json", type=Path, metavar="FILE", help="write rows and ratios to FILE")
    bench.add_argument("--repeats", type=int, metavar="N", help="repetitions of each case")
    bench.add_argument("--quick", action="store_true", help="a smoke test, no figures to quote")
    bench.set_defaults(command=_bench)
    return parser


def _add_workload(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("workload", nargs="?", help="an algorithm (ppo) or FILE.py:OBJECT")
    parser.add_argument("--env", help="a Gymnasium id or module:factory")
    parser.add_argument(
        "--actors", metavar="N",
        help="actor processes; also by update (0:4,5:8), by hand (4..16, see scale) or by a policy "
        "(noise_scale:2..16, plateau:2..16)",
    )  # fmt: skip
    parser.add_argument("--total-steps", type=int, metavar="N", help="environment steps in all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", dest="settings",
        help="a setting of the workload, e.g. --set lr=0.001; repeat for more",
    )  # fmt: skip
    parser.add_argument(
        "--deadline", type=float, default=300.0, metavar="SECONDS",
        help="how long an actor or the learner may take to answer before it counts as hung",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def _add_run(parser: argparse.ArgumentParser) -> None:
    _add_workload(parser)
    parser.add_argument(
        "--run-dir", type=Path, metavar="DIR", help="default: runs/ALGO-ENV-seedS-N"
    )
    parser.add_argument("--inline", action="store_true", help="one process, deterministic by seed")
    parser.add_argument(
        "--resume", type=Path, metavar="RUN", help="continue the run in this folder"
    )
    parser.set_defaults(command=_run)


def _add_explain(parser: argparse.ArgumentParser) -> None:
    _add_workload(parser)
    parser.set_defaults(command=_explain)


def settings_of(options: argparse.Namespace) -> dict[str, Any]:
    """The flags that were given and every ``--set``, as one dictionary.

    Raises:
        Refused: a ``--set`` without ``=``.
    """
    flags = {name: getattr(options, name) for name in ("env", "actors", "total_steps")}
    settings = {name: value for name, value in flags.items() if value is not None}
    bad = [text for text in options.settings if "=" not in text]
    if bad:
        raise Refused([f"--set {text!r}: write KEY=VALUE" for text in bad])
    return settings | dict(text.split("=", 1) for text in options.settings)


def _run(options: argparse.Namespace) -> int:
    settings = settings_of(options)
    # Whatever user code prints in this process must not mix with the result.
    with redirect_stdout(sys.stderr) if options.json else nullcontext():
        summary = _summary(options, settings)
    if options.json:
        _print_json(summary)
    return INTERRUPTED if summary.outcome == "interrupted" else DONE


def _summary(options: argparse.Namespace, settings: dict[str, Any]) -> Any:
    from deploy import run as runs  # noqa: PLC0415

    if options.resume is None:
        return runs.run(_request(options, settings))
    if options.workload or options.run_dir:
        raise Refused(["--resume takes no workload and no --run-dir: the run knows its own"])
    return runs.resume(options.resume, settings, quiet=options.json)


def _request(options: argparse.Namespace, settings: dict[str, Any]) -> Any:
    from deploy.run import Request  # noqa: PLC0415

    return Request(
        _workload(options), settings, options.seed, options.run_dir, options.inline, options.json,
        deadline=options.deadline,
    )  # fmt: skip


def _workload(options: argparse.Namespace) -> str:
    if not options.workload:
        raise Refused(["name a workload: an algorithm (ppo) or FILE.py:OBJECT"])
    return str(options.workload)


def _explain(options: argparse.Namespace) -> int:
    from deploy.registration import prepare, reference_of  # noqa: PLC0415
    from triggers.explain import explain  # noqa: PLC0415

    reference = reference_of(_workload(options), settings_of(options), Path.cwd())
    registration = prepare(reference, options.seed, deadline=options.deadline)
    if options.json:
        _print_json(registration.plan)
    else:
        print(explain(registration.plan, registration.table))
    return DONE


def _clean(options: argparse.Namespace) -> int:
    from artos.buffer.segment import reap_orphans  # noqa: PLC0415

    removed = [str(path) for path in reap_orphans()]
    if options.json:
        _print_json({"removed": removed})
    else:
        print("\n".join(f"removed {path}" for path in removed) or "nothing was left behind")
    return DONE


def _doctor(options: argparse.Namespace) -> int:
    from deploy import doctor  # noqa: PLC0415

    report = doctor.examine()
    if options.json:
        _print_json(report)
    else:
        print(doctor.text(report))
    return DONE


def _scale(options: argparse.Namespace) -> int:
    from deploy import control  # noqa: PLC0415

    answer = control.scale(options.run, options.actors)
    if options.json:
        _print_json({"actors": answer.actors, "most": answer.most})
    else:
        print(f"{answer.actors} of {answer.most} registered actors from the next version on")
    return DONE


def _bench(options: argparse.Namespace) -> int:
    # By name: the benchmarks stand on the floor above and are only there where installed.
    registry = importlib.import_module("evaluation.registry")
    repeats = {} if options.repeats is None else {"repeats": options.repeats}
    return int(registry.run(options.name, options.json, options.quick, **repeats))


def _print_json(value: Any) -> None:
    import msgspec  # noqa: PLC0415

    print(msgspec.json.format(msgspec.json.encode(value), indent=1).decode())


if __name__ == "__main__":
    sys.exit(main())
