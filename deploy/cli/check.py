"""``artos check ENV``: what an environment shows and takes, and how it behaves."""

from __future__ import annotations

import argparse
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from artos.errors import DeadlineExceeded, Refused
from artos.runs.exit_status import ExitStatus
from artos.system.printable import printable
from deploy.cli.common import add_deadline, add_env_args, add_json, env_args_of, print_json
from deploy.cli.parser import Parser

if TYPE_CHECKING:
    from artos.envs.spec import ActionSpec, Part
    from artos.runtime.examination import Examination

_LOOP = 1.0
"""Seconds that each of the loops of an examination takes, at most."""


def add_to(parser: Parser) -> None:
    """Add the flags of ``artos check``."""
    parser.add_argument("env", metavar="ENV", help="a Gymnasium id or module:factory")
    add_env_args(parser)
    add_deadline(parser, 60.0, "give up after this long")
    add_json(parser)
    parser.set_defaults(command=check_env)


def check_env(options: argparse.Namespace) -> int:
    """``artos check``: try an environment out; trains nothing."""
    from artos.specs.address import address  # noqa: PLC0415

    found = examined(address(options.env, env_args_of(options)), options.deadline)
    if options.json:
        print_json(found)
    else:
        print(printable(text(found)))
    return ExitStatus.DONE


def examined(env: str, deadline: float) -> Examination:
    """The examination of an environment, by a process that may be killed.

    Raises:
        Refused: the environment cannot be used, with all reasons.
        DeadlineExceeded: it was not done in ``deadline`` seconds; names what was under way.
    """
    import msgspec  # noqa: PLC0415

    from artos.runtime.examination import Examination  # noqa: PLC0415

    if not deadline > 0:
        raise Refused([f"deadline must be positive, not {deadline:g}"])
    seconds = min(_LOOP, deadline / 10)
    words = [sys.executable, "-P", "-m", "artos.runtime.examination", env, str(seconds)]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is ours: we kill it, and it says nothing
    ) as child:  # fmt: skip
        try:
            lines = child.communicate(timeout=deadline)[0].splitlines()
        except subprocess.TimeoutExpired as late:
            doing = [msgspec.json.decode(line) for line in (late.stdout or b"").splitlines()]
            what = f"environment {env}: {doing[-1] if doing else 'importing ARTOS'}"
            raise DeadlineExceeded(what, deadline) from None
        finally:
            child.kill()
            child.wait()
    last: Any = msgspec.json.decode(lines[-1]) if lines else ""
    if isinstance(last, list):
        raise Refused(last)
    if isinstance(last, str):
        status = f"ended the process that was {last or 'importing ARTOS'}"
        raise Refused([f"environment {env} {status} (status {child.returncode})"])
    return msgspec.convert(last, Examination, strict=False)


def text(found: Examination) -> str:
    """An examination as text for people."""
    from artos.envs.goals import goal_words  # noqa: PLC0415

    spec = found.spec
    lines = [spec.name, "", "shows"]
    lines += [f"  {_part(part, found.networks.get(part.name, ''))}" for part in spec.parts]
    lines += [f"  {name}: text, left out" for name in spec.left_out]
    if goals := goal_words(part.name for part in spec.parts):
        lines.append(f"  goals: {goals}")
    lines += ["takes", f"  {_actions(spec.actions)}", "behaves"]
    if found.differs:
        lines.append(f"  not decided by its seed: {found.differs}")
    else:
        lines.append(f"  decided by its seed: the same over {found.compared} steps, three times")
    if found.own_resets:
        lines.append(f"  resets itself: {found.own_resets}")
    if found.reuses:
        again = ", ".join(found.reuses)
        lines.append(f"  hands over the same array again: {again} (it is copied)")
    if found.keeps_actions:
        lines.append("  keeps the arrays of actions that it is given")
    lines += [
        f"  shows numbers that float32, in which networks compute, does not tell apart: {name}, "
        f"{example}; let a wrapper subtract an offset"
        for name, example in found.rounded.items()
    ]
    lines.append(f"  {found.bare:,.0f} steps/s alone, {found.stepped:,.0f} as actors step it")
    lines += [f"note: {note}" for note in found.notes]
    return "\n".join(lines)


def _part(part: Part, network: str) -> str:
    stack = f", the last {part.stack} of an episode" if part.stack > 1 else ""
    bounds = ""
    if part.sizes:
        bounds = f", categories: {_short(part.sizes)}"
    elif part.low is not None and part.high is not None:
        bounds = f", {part.low:g} to {part.high:g}"
    reads = f" -> {network}" if network else " (which actions may be chosen)"
    return f"{part.name}: {part.dtype} {part.shape}{bounds}{stack}{reads}"


def _actions(actions: ActionSpec) -> str:
    if actions.kind == "discrete":
        return f"one of {actions.sizes[0]} actions"
    if actions.kind == "multidiscrete":
        return f"{len(actions.sizes)} choices of {_short(actions.sizes)} actions"
    bounds = f"{_short(actions.low)} to {_short(actions.high)}"
    return f"numbers {actions.shape}, {actions.dtype}, {bounds}"


def _short(values: tuple[Any, ...]) -> str:
    several = [str(value) for value in dict.fromkeys(values)]
    return (
        several[0]
        if len(several) == 1
        else ", ".join(map(str, values[:8])) + " ..." * (len(values) > 8)
    )
