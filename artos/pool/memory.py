"""The memory of a resource, by the table: how much is lacking, and who has it."""

from __future__ import annotations

from typing import NamedTuple

from artos.pool.records import HELD, MEMORY, NONE, WAITING, SeatRecord
from artos.pool.table import Table


class Shortage(NamedTuple):
    """A seat waits for nothing but memory of a resource."""

    resource: str
    lacking_mb: int
    held_by: tuple[str, ...]
    """Workload, process and MB of each seat that has some of it."""

    def __str__(self) -> str:
        by = "; ".join(self.held_by) or "no one that the pool knows of"
        return f"{self.lacking_mb:,} MB on {self.resource}, held by {by}"


def shortage(table: Table, seat: SeatRecord) -> Shortage | None:
    """The memory that a seat for a named resource lacks.

    None if it does not wait, or waits for its turn.
    """
    if (seat.state, seat.cause) != (WAITING, MEMORY) or seat.wants == NONE:
        return None
    resource = table.resources[seat.wants]
    others = [each for each in table.seats.values() if each is not seat]
    taken = [(each, mb) for each in others if (mb := _taken_mb(each, seat.wants))]
    needs = max(seat.memory_mb, seat.left_mb)
    lacking = sum(mb for _, mb in taken) + needs - resource.memory_mb
    held_by = tuple(
        f"{table.accounts[each.account].workload!r} "
        f"(process {table.members[each.member].pid}, {mb:,} MB)"
        for each, mb in taken
    )
    return Shortage(resource.name, max(0, lacking), held_by)


def _taken_mb(seat: SeatRecord, resource: int) -> int:
    """What a seat has taken of a resource: all it needs while it holds, else what it left there."""
    left = seat.left_mb if seat.wants == resource else 0
    return left + seat.more_mb if (seat.state, seat.resource) == (HELD, resource) else left


def lacking_mb(table: Table, name: str, *, now: bool = False) -> int:
    """How much memory (MB) a resource lacks for as many seats to hold it as its share allows.

    What other seats have left there counts, too. With ``now`` only seats that wait for nothing but
    memory count. 0 if its memory is not counted.
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
        seats = [each for each in seats if (each.state, each.cause) == (WAITING, MEMORY)]
    more = sorted((each.more_mb for each in seats), reverse=True)[:places]
    return max(0, taken + sum(more) - resource.memory_mb) if more else 0
