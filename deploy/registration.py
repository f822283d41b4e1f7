"""From what the user typed to a plan that can run, or to every reason why not."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from artos.errors import DeadlineExceeded, Refused
from artos.plan import Plan, Reference
from artos.runtime.reference import load_object
from artos.runtime.register import Registered, register
from artos.spec import closest
from triggers import verifier
from triggers.algorithms import BUILT_IN
from triggers.table import Table, decode_table
from triggers.wiring import complete, pace

_SECONDS = 120.0


@dataclass(frozen=True)
class Registration:
    """A verified plan and its trigger table."""

    plan: Plan
    table: Table


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


def register_apart(reference: Reference, seed: int) -> Plan:
    """Register in a process of its own, so that user code never runs in a daemon.

    Raises:
        Refused: all faults at once.
        DeadlineExceeded: building the workload took too long.
    """
    text = msgspec.json.encode(reference).decode()
    command = [sys.executable, "-P", "-m", "artos.runtime.register", text, str(seed)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    try:
        answer = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=False,
            env=environment,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise DeadlineExceeded(f"{reference.source} to be built", _SECONDS) from None
    return _plan_of(answer, reference)


def _plan_of(answer: subprocess.CompletedProcess[bytes], reference: Reference) -> Plan:
    try:
        result = msgspec.json.decode(answer.stdout, type=Registered)
    except msgspec.DecodeError:
        tail = answer.stderr.decode(errors="replace").strip()[-1500:]
        status = answer.returncode
        raise Refused(
            [f"building {reference.source} ended with exit status {status}:\n{tail}"]
        ) from None
    if result.plan is None:
        raise Refused(result.faults)
    return result.plan


def prepare(reference: Reference, seed: int, *, apart: bool = True) -> Registration:
    """Register, complete and verify a workload.

    Raises:
        Refused: all faults at once, each saying what to change.
    """
    plan = register_apart(reference, seed) if apart else register(reference, seed)
    table = decode_table(plan.triggers, lambda source: load_object(source, reference.folder))
    pace(table)
    plan = complete(plan, table)
    faults = verifier.faults(plan, table)
    if faults:
        raise Refused(faults)
    return Registration(plan, table)
