"""The invocations of a run's journal: how long each took its member, and the slot that it held.

A member says how many seconds it sampled or learned. To be woken, to bind weights and to be heard
takes more, and the journal has all of it: when each invocation was fired, and when its answer was
read. What a member waited for meanwhile is left out: its invocations before, and its slot.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

LEARNER = "learner"


@dataclass(slots=True)
class Invocation:
    """One invocation. ``asked`` is when its member could begin, ``ended`` when it was over.

    ``seconds`` are those that the member told. ``drew`` is False if it found nothing to do.
    """

    target: str
    asked: float
    ended: float
    seconds: float
    version: int
    drew: bool = True


def invocations(lines: Iterable[Mapping[str, Any]]) -> dict[str, list[Invocation]]:
    """Those of each member, in order."""
    fired: dict[int, Mapping[str, Any]] = {}
    seen: dict[int, float] = {}  # version → when triggers knew of it
    ready: dict[str, float] = {}
    found: dict[str, list[Invocation]] = {}
    for line in lines:
        if "firing" in line:
            fired[line["firing"]] = line
            seen.setdefault(line["version"], line["t"])
        elif "ready" in line:
            ready.setdefault(line["ready"], line["t"])
        elif "done" in line and "seconds" in line:
            found.setdefault(line["by"], []).append(_invocation(line, fired[line["done"]], seen))
    for member, each in found.items():
        _tighten(each, ready.get(member, 0.0))
    return found


def _invocation(
    done: Mapping[str, Any], firing: Mapping[str, Any], seen: Mapping[int, float]
) -> Invocation:
    ended, version = done["t"], done.get("version", 0)
    if done["by"] == LEARNER:  # its weights may be known before its answer is read
        known = seen.get(version, ended)
        ended = known if firing["t"] < known else ended
    return Invocation(
        firing["trigger"], firing["t"], min(ended, done["t"]), done["seconds"], version,
        "nothing" not in done,
    )  # fmt: skip


def _tighten(of_member: Sequence[Invocation], ready: float) -> None:
    """A member does one after the other, so each was over when the next one began.

    Answers may be read late, and then several at once.
    """
    begins = float("inf")
    for each in reversed(of_member):
        each.ended = min(each.ended, begins)
        begins = each.ended - each.seconds
    free = ready
    for each in of_member:
        each.asked, free = max(each.asked, free), each.ended


def alone(of_member: Iterable[Invocation]) -> Iterator[tuple[str, float]]:
    """Target and duration of the invocations of a member that waits for no slot."""
    for each in of_member:
        yield each.target, max(each.seconds, each.ended - each.asked)


def with_slots(rounds: Iterable[Invocation], slots: int | None) -> Iterator[tuple[str, float]]:
    """Target and duration of actors' invocations that took turns on so many slots.

    When the j-th begins, at least j - ``slots`` of those that began before it are over, so it had
    waited until then for its slot. None: nothing is known of slots, so what members tell counts.
    """
    under_way: list[float] = []
    for each in sorted(rounds, key=lambda one: one.ended - one.seconds):
        began = each.ended - each.seconds
        if slots is not None:
            freed = heapq.heappop(under_way) if len(under_way) >= slots else 0.0
            heapq.heappush(under_way, each.ended)
            began = min(began, max(each.asked, freed))
        yield each.target, each.ended - began
