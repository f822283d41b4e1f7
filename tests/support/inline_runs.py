"""Runs of every member in this process, to their end."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from real_runs import Outcome

from artos.clock import SystemClock
from artos.runs.run_memory import RunMemory
from deploy.cli.__main__ import main
from deploy.local.inline import Inline
from head.run.coordination.coordinator import Coordinator
from head.run.coordination.ports import Ports
from head.run.request import reference_of
from head.run.wiring import connect
from triggers.journal import Journal
from triggers.registration import Registration, prepare


@dataclass(frozen=True)
class Finished:
    """A finished run: its books, its journal, the arrays of its last version."""

    coordinator: Coordinator
    journal: Path
    arrays: dict[str, NDArray[Any]]


def registered(workload: str, folder: Path, **settings: Any) -> Registration:
    """A workload of a user's folder, or a built-in one, registered in this process."""
    return prepare(reference_of(workload, settings, folder), seed=1, apart=False)


def finished(registration: Registration, folder: Path, members: type[Inline] = Inline) -> Finished:
    """Run it to its end."""
    path, clock, plan = folder / "journal.jsonl", SystemClock(), registration.plan
    path.unlink(missing_ok=True)
    journal = Journal(path)
    with RunMemory(plan, "inline", folder) as node:
        crowd = members(node)
        coordinator = connect(plan, registration.table, Ports.of(node, crowd, clock, journal))
        crowd.run(coordinator, lambda: None)
        crowd.stop()
        arrays = {name: np.copy(array) for name, array in node.weights.newest.arrays.items()}
    journal.close()
    return Finished(coordinator, path, arrays)


def commanded(folder: Path, arguments: Sequence[object]) -> Outcome:
    """`artos ARGUMENTS` in a user's folder; what it imports from there is forgotten."""
    out, err, known = io.StringIO(), io.StringIO(), {*sys.modules}
    try:
        with chdir(folder), redirect_stdout(out), redirect_stderr(err):
            status = main([*map(str, arguments)])
    finally:
        for name in {*sys.modules} - known:
            if (getattr(sys.modules[name], "__file__", None) or "").startswith(str(folder)):
                del sys.modules[name]
    return Outcome(status, out.getvalue(), err.getvalue())
