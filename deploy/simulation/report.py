"""What a simulation found: the outcome of ``artos simulate``."""

from __future__ import annotations

import msgspec


class RunUsage(msgspec.Struct, frozen=True):
    """One run. Times in seconds since the simulation began.

    What it held and waited for is named as in ``Usage``.
    """

    run: str
    workload: str
    arrived: float
    began: float
    ended: float
    steps: int
    updates: int
    cpu_seconds_held: float
    device_seconds_held: float
    waits: dict[str, float]
    """Seconds by cause; two causes are the head's.

    ``quota``: from its arrival until its quotas left room for it, and those of actors that would
    have been more at once than a quota lets. ``start``: from when there was room until the head
    began it.
    """


class Forecast(msgspec.Struct, frozen=True):
    """All runs."""

    nodes: int
    slots: int
    runs_per_slot: int
    devices: int
    makespan: float
    """The time of the last one's end, in seconds."""
    utilisation: dict[str, float]
    """The share of ``slots`` and ``devices`` that was held on average over the makespan."""
    waits: dict[str, dict[str, float]]
    """All waits of a cause: their ``count``, and the ``mean`` and ``longest`` in seconds."""
    usage: tuple[RunUsage, ...]
    events: int
    """How many the simulation let happen."""
    simulated_in: float
    """The seconds that the simulation took."""
    ended_early: dict[str, str] = {}
    """Which quota ended runs before they were done."""
    unfinished: dict[str, str] = {}
    """What runs that never ended wait for."""
