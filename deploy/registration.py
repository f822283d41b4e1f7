"""From what the user typed to a plan that can run, or to every reason why not."""

from __future__ import annotations

import signal
import subprocess
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from artos.elastic import NAMES
from artos.errors import Refused
from artos.plan import Plan, Reference
from artos.runtime.child import command, environment
from artos.runtime.death import SLOW, START_SECONDS
from artos.runtime.reference import load_object, user_imports
from artos.runtime.register import Registered, register
from artos.scaling_policy import Own, ScalingPolicy
from artos.spec import closest
from artos.unreadable import UNREADABLE
from deploy import muster
from triggers import verifier
from triggers.algorithms import BUILT_IN
from triggers.table import Table, decode_table
from triggers.wiring import complete, pace


@dataclass(frozen=True)
class Registration:
    """A verified plan, its trigger table, and the user's own scaling policy if it has one.

    ``resolved`` are all its settings, ``versions`` those of the packages that it is built with.
    """

    plan: Plan
    table: Table
    policy: ScalingPolicy | None = None
    resolved: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)

    def resumed(self, times: int) -> Registration:
        """The same for the given continuation of a run."""
        return replace(self, plan=msgspec.structs.replace(self.plan, resumes=times))


def reference_of(workload: str, settings: dict[str, Any], folder: Path) -> Reference:
    """What ``ALGORITHM`` or ``FILE.py:OBJECT`` means.

    Raises:
        Refused: neither an algorithm nor a file with an object.
    """
    if workload in BUILT_IN:
        return Reference(BUILT_IN[workload], settings, str(folder))
    place, _, name = workload.rpartition(":")
    if not place.endswith(".py") or not name:
        hint = closest(workload, list(BUILT_IN))
        raise Refused(
            [f"unknown workload {workload!r}{hint} (have {', '.join(BUILT_IN)}, or FILE.py:OBJECT)"]
        )
    path = (folder / place).resolve()
    return Reference(f"{path}:{name}", settings, str(path.parent))


def register_apart(reference: Reference, seed: int, deadline: float = 300.0) -> Registered:
    """Register in a process of its own, so that user code never runs in a daemon.

    Raises:
        Refused: it did not answer within ``deadline`` seconds, or ended without an answer.
    """
    text = msgspec.json.encode(reference).decode()
    seconds = max(START_SECONDS, deadline)
    try:
        answer = subprocess.run(
            command("artos.runtime.register_process", text, str(seed)), stdin=subprocess.DEVNULL,
            capture_output=True, timeout=seconds, check=False, env=environment(1),
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        why = f"building {reference.source} took more than {seconds:g} s: {SLOW}"
        raise Refused([why]) from None
    return _decoded(answer, reference)


def _register_here(reference: Reference, seed: int) -> Registered:
    with user_imports(reference.folder):
        return register(reference, seed)


def _decoded(answer: subprocess.CompletedProcess[bytes], reference: Reference) -> Registered:
    try:
        return msgspec.json.decode(answer.stdout, type=Registered)
    except UNREADABLE:
        tail = answer.stderr.decode(errors="replace").strip()[-1500:]
        said = f"; its last words:\n{tail}" if tail else ""
        raise Refused([f"building {reference.source} {_end(answer.returncode)}{said}"]) from None


def _end(status: int) -> str:
    if status == -signal.SIGKILL:
        return (
            "was killed (SIGKILL): if it was nobody, memory ran out, of this machine or of its "
            "cgroup; free some, or have it build less"
        )
    if status < 0:
        return f"crashed ({signal.strsignal(-status)})"
    return f"ended with exit status {status}"


def _split(reference: Reference) -> tuple[Reference, dict[str, Any]]:
    """Settings of the workload, apart from those of how its actors live, which all have."""
    elastic = {name: value for name, value in reference.settings.items() if name in NAMES}
    own = {name: value for name, value in reference.settings.items() if name not in NAMES}
    return msgspec.structs.replace(reference, settings=own), elastic


def prepare(
    reference: Reference, seed: int, *, apart: bool = True, deadline: float = 300.0,
    here: bool = True,
) -> Registration:  # fmt: skip
    """Register, complete and verify a workload; ``here`` is whether its actors are to live here.

    Raises:
        Refused: all faults at once, each saying what to change.
    """
    early = [] if deadline > 0 else [f"--deadline must be positive, not {deadline:g}"]
    reference, elastic = _split(reference)
    made = register_apart(reference, seed, deadline) if apart else _register_here(reference, seed)
    if made.plan is None:
        raise Refused([*early, *made.faults])
    faults: list[str] = []
    plan = msgspec.structs.replace(made.plan, deadline=deadline)
    try:
        plan = msgspec.structs.replace(plan, elastic=plan.elastic.changed(elastic))
    except Refused as refused:
        faults += refused.faults
    load = partial(load_object, folder=reference.folder)
    table = decode_table(plan.triggers, load)
    policy = plan.scaling.policy(load) if isinstance(plan.scaling, Own) else None
    pace(table)
    plan = complete(plan, table)
    faults += muster.faults(plan) if here else []
    faults = [*early, *faults, *made.faults, *verifier.faults(plan, table)]
    if faults:
        raise Refused(faults)
    resolved = made.resolved | msgspec.structs.asdict(plan.elastic)
    return Registration(plan, table, policy, resolved, made.versions)
