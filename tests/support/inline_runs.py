"""Runs of every member in this process, to their end."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from artos.clock import SystemClock
from artos.runs.run_memory import RunMemory
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
