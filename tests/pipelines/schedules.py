"""Runs of every member in this process, in an order that a test chooses."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from hands import SMALL
from numpy.typing import NDArray

from artos.buffer.board import LEARNER
from artos.clock import SystemClock
from artos.messages import Invoke
from deploy.inline import Inline
from deploy.node import Node
from deploy.registration import Registration, prepare
from deploy.request import reference_of
from deploy.wiring import connect
from head.coordinator import Coordinator
from triggers.journal import Journal


class LearnerFirst(Inline):
    """The learner has done what it was told before any other actor acts, as if it were fast."""

    first = staticmethod(lambda member: member == LEARNER)

    def queue(self, member: int, call: Invoke) -> None:
        """Queue an invocation behind those that go first, if it does, else at the end."""
        places = range(len(self._queue))
        later = (i for i in places if not self.first(self._queue[i][0]))
        at = next(later, len(self._queue)) if self.first(member) else len(self._queue)
        self._queue.insert(at, (member, call))


class ActorsFirst(LearnerFirst):
    """Actors have sampled all they may before the learner does anything."""

    first = staticmethod(lambda member: member != LEARNER)


@dataclass(frozen=True)
class Finished:
    """A finished run: its books, its journal, the arrays of its last version."""

    coordinator: Coordinator
    journal: Path
    arrays: dict[str, NDArray[Any]]


def registered(folder: Path, **settings: Any) -> Registration:
    """PPO, small, in this process."""
    return prepare(reference_of("ppo", SMALL | settings, folder), seed=1, apart=False)


def finished(registration: Registration, folder: Path, members: type[Inline] = Inline) -> Finished:
    """Run it to its end."""
    path, clock, plan = folder / "journal.jsonl", SystemClock(), registration.plan
    path.unlink(missing_ok=True)
    journal = Journal(path)
    with Node(plan, "schedules", folder) as node:
        crowd = members(node)
        coordinator = Coordinator(plan, node.blocks, node.weights, crowd, clock, journal)
        connect(registration.table, coordinator, clock, journal)
        crowd.run(coordinator, lambda: None)
        crowd.stop()
        arrays = {name: np.copy(array) for name, array in node.weights.newest.arrays.items()}
    journal.close()
    return Finished(coordinator, path, arrays)
