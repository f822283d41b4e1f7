"""The memory of a resource, by the table: what is lacking of it, and who has it."""

from __future__ import annotations

from typing import NamedTuple

from artos.pool.records import HELD, MEMORY, NONE, WAITING, SeatRecord
from artos.pool.table import Table


class Shortage(NamedTuple):
    """A seat waits for nothing but ``lacking_mb`` of a resource; ``held_by`` has who has them."""

    resource: str
    lacking_mb: int
    held_by: tuple[str, ...]

    def __str__(self) -> str:
        by = "; ".join(self.held_by) or "nobody that the pool knows"
        return f"{self.lacking_mb:,} MB on {self.resource}, held by {by}"


def shortage(table: Table, seat: SeatRecord) -> Shortage | None:
    """What a seat for a named resource lacks; None if it has another turn to wait for, or none."""
    if (seat.state, seat.cause) != (WAITING, MEMORY) or seat.wants == NONE:
        return None
    resource = table.resources[seat.wants]
    others = [each for each in table.seats.values() if each is not seat]
    taken = [(each, mb) for each in others if (mb := _taken_mb(each, seat.wants))]
    needs = max(seat.memory_mb, seat.left_mb)
    lacking = sum(mb for _, mb in taken) + needs - resource.memory_mb
    words = tuple(_words(table, each, mb) for each, mb in taken)
    return Shortage(resource.name, max(0, lacking), words)


def _taken_mb(seat: SeatRecord, resource: int) -> int:
    """What a seat has of a resource: all it needs while it holds, else what it has left there."""
    left = seat.left_mb if seat.wants == resource else 0
    return left + seat.more_mb if (seat.state, seat.resource) == (HELD, resource) else left


def _words(table: Table, seat: SeatRecord, mb: int) -> str:
    who, pid = table.accounts[seat.account].workload, table.members[seat.member].pid
    return f"{who!r} (process {pid}, {mb:,} MB)"


def lacking_mb(table: Table, name: str, *, now: bool = False) -> int:
    """How much more memory a resource would need for any of its seats to hold it, as many as may.

    Beside those that hold, there is what all others have left. ``now``: for those that wait only,
    and nothing as long as others keep them from it.
    """
    number = table.resources.find(name=name)
    if number is None or not (resource := table.resources[number]).memory_mb:
        return 0
    seats = [
        each
        for each in table.seats.values()
        if each.wants == number or (each.wants == NONE and each.kind == resource.kind)
    ]
    taken, places = sum(each.left_mb for each in seats), resource.share
    if now:
        held = [each for each in seats if (each.state, each.resource) == (HELD, number)]
        taken, places = taken + sum(each.more_mb for each in held), min(1, places - len(held))
        seats = [each for each in seats if each.state == WAITING]
    more = sorted((each.more_mb for each in seats), reverse=True)[:places]
    return max(0, taken + sum(more) - resource.memory_mb) if more else 0
