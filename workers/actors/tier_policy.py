"""Decides where an idle actor waits: in memory, frozen, or as an image (paper §3.3)."""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil

from artos.specs.elastic import Park
from artos.system.cgroups import ROOT, groups, text

Tier = Literal["never", "memory", "freeze", "checkpoint"]
"""Where an actor waits: with its slot; alive without a slot; stopped; as an image, no process."""

WORTH = 20
"""A tier may cost at most one in so many of the seconds that an actor will be idle."""

PRESSURE = 0.85
"""Memory is worth giving back once this share of it is in use."""

_BELOW: dict[Tier, Tier] = {"checkpoint": "freeze", "freeze": "memory"}

# Seconds in and out, until measured: those of a Python actor with 150 MB of private memory.
_PRIORS: dict[Tier, tuple[float, float]] = {"freeze": (1e-4, 5e-4), "checkpoint": (0.13, 0.1)}


class Costs:
    """The costs of tiers: running medians of the seconds it takes to enter and to leave each."""

    def __init__(self, window: int = 15) -> None:
        self._window = window
        self._taken: dict[tuple[Tier, bool], deque[float]] = {}

    def into(self, tier: Tier, seconds: float) -> None:
        """Note that an actor took ``seconds`` to enter the tier."""
        self._note(tier, False, seconds)

    def out_of(self, tier: Tier, seconds: float) -> None:
        """Note that an actor took ``seconds`` to leave the tier and run."""
        self._note(tier, True, seconds)

    def of(self, tier: Tier) -> float:
        """Seconds of one round trip; for a direction not measured yet, a usual value."""
        priors = _PRIORS.get(tier, (0.0, 0.0))
        return sum(
            statistics.median(self._taken.get((tier, out)) or (priors[out],))
            for out in (False, True)
        )

    def _note(self, tier: Tier, out: bool, seconds: float) -> None:
        self._taken.setdefault((tier, out), deque(maxlen=self._window)).append(seconds)


class IdleForecast:
    """How long one actor will be idle: as long as its run expects, but at most its last pause.

    While the run expects nothing, the shortest of the actor's last pauses counts. It is never more
    than the last pause: the bound that ``choose`` promises depends on that.
    """

    def __init__(self, window: int = 5) -> None:
        self._pauses: deque[float] = deque(maxlen=window)
        self._expected = 0.0

    def expect(self, seconds: float) -> None:
        """Note how long the run expects the next pause to last; 0: it does not know."""
        self._expected = seconds

    def noted(self, seconds: float) -> None:
        """Note how long the actor was idle."""
        self._pauses.append(seconds)

    @property
    def seconds(self) -> float | None:
        """The forecast; None before the first pause."""
        if self._pauses and self._expected:
            return min(self._pauses[-1], self._expected)
        return min(self._pauses, default=None)


@dataclass(frozen=True)
class Situation:
    """The facts for the decision when an actor has finished a round."""

    available: frozenset[Tier] = frozenset({"memory", "freeze", "checkpoint"})
    """The tiers of this host that the actor can enter."""
    idle: float | None = None
    """The forecast in seconds; None: unknown."""
    for_good: bool = False
    """Whether the actor will not be used until the workload grows again."""
    pressure: bool = False
    """Whether memory is short."""
    gives_back: bool = True
    """Whether an image frees memory; one on a tmpfs takes as much as it frees."""
    burns_cpu: bool = False
    """Whether the actor goes on computing while it has no invocation."""


def choose(park: Park, seen: Situation, costs: Costs) -> Tier:
    """The tier an actor is to wait in.

    A fixed choice is obeyed, or the nearest tier below it that the host has. With ``never`` an
    actor keeps its slot between rounds and gives it back only when it is idle for good.

    ``auto`` keeps actors in memory, where going on costs nothing. It takes another tier only for
    what that tier adds: ``checkpoint`` gives memory back when memory is short, ``freeze`` stops an
    actor that burns the CPU others need; and each only if the round trip costs at most 1/20 of the
    forecast idle time. The forecast is never more than the actor's last pause, so all round trips
    of a run together take at most 1/20 of its pauses, in any sequence. Hence ``auto`` is
    slower than the best fixed choice, which at best pays nothing, by at most five per cent of the
    idle time. An actor that is idle for good becomes an image, or is frozen if it cannot.
    """
    if park == "auto":
        return _auto(seen, costs)
    if park == "never":
        return "memory" if seen.for_good else "never"
    return _nearest(park, seen)


def _auto(seen: Situation, costs: Costs) -> Tier:
    if seen.for_good:
        return _nearest("checkpoint", seen)
    if seen.pressure and seen.gives_back and _pays("checkpoint", seen, costs):
        return "checkpoint"
    if seen.burns_cpu and _pays("freeze", seen, costs):
        return "freeze"
    return "memory"


def _pays(tier: Tier, seen: Situation, costs: Costs) -> bool:
    return tier in seen.available and seen.idle is not None and seen.idle >= WORTH * costs.of(tier)


def _nearest(tier: Tier, seen: Situation) -> Tier:
    while tier not in seen.available and tier in _BELOW:
        tier = _BELOW[tier]
    return tier


# -- reading the host --------------------------------------------------------------------------


def under_pressure(root: Path = ROOT) -> bool:
    """Whether memory is short, on the machine or in the control groups of this process."""
    return memory_in_use(root) >= PRESSURE


def memory_in_use(root: Path = ROOT) -> float:
    """Largest share in use: of the machine's memory, or of a control group's limit."""
    machine = psutil.virtual_memory()
    shares = (_share(folder) for folder in groups("memory", root))
    return max(1 - machine.available / machine.total, *(s for s in shares if s is not None), 0.0)


def _share(folder: Path) -> float | None:
    """Share of its limit that a group uses, without droppable file pages. None: no limit."""
    for limit, used, droppable in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        allowed, taken = text(folder / limit), text(folder / used)
        if allowed.isdigit() and taken.isdigit() and int(allowed) > 0:
            dropped = sum(_stat(folder, droppable))
            return (int(taken) - dropped) / int(allowed)
    return None


def _stat(folder: Path, name: str) -> Iterator[int]:
    for line in text(folder / "memory.stat").splitlines():
        key, _, value = line.partition(" ")
        if key == name:
            yield int(value)
