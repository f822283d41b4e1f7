"""State machines as tables: which event leads from which state to which."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

from artos.errors import ForbiddenMove

State = TypeVar("State", bound=StrEnum)
Event = TypeVar("Event", bound=StrEnum)


def after(
    table: Mapping[tuple[State, Event], State], state: State, event: Event, what: str = "an actor"
) -> State:
    """The state that ``event`` leads to; ``what`` names the thing in that state, for the error.

    Raises:
        ForbiddenMove: ``event`` cannot happen in ``state``; names the events that can.
    """
    found = table.get((state, event))
    if found is None:
        raise ForbiddenMove(state, event, events(table, state), what)
    return found


def events(table: Mapping[tuple[State, Event], State], state: State) -> tuple[str, ...]:
    """The events that can happen in a state."""
    return tuple(str(event) for at, event in table if at is state)
