"""The books of a run as a snapshot, from which another coordinator of the run can go on."""

from __future__ import annotations

from typing import Any

from artos.snapshot import put_back, taken
from head.run.coordination.coordinator import Coordinator


def books_of(coordinator: Coordinator) -> dict[str, Any]:
    """The books between two events; to be pickled at once."""
    return {name: taken(part) for name, part in _parts(coordinator).items()}


def go_on_with(coordinator: Coordinator, books: dict[str, Any]) -> None:
    """Go on with books as another coordinator of this workload had them, where it stopped.

    Its invocations are still to be carried out.
    """
    for name, part in _parts(coordinator).items():
        put_back(part, books[name])
    state, now = coordinator.state, coordinator.ports.clock.now()
    for member in {member for member, _ in state.invocations}:
        state.invocations.restamp(member, now)
    state.active_actors.begin()
    coordinator.dispatcher.again()


def _parts(coordinator: Coordinator) -> dict[str, Any]:
    return {
        "state": coordinator.state,
        "dispatcher": coordinator.dispatcher,
        "engine": coordinator.engine,
        "rows": coordinator.ports.row_source,
    }
