"""What a simulation found: the outcome of ``artos simulate``."""

from __future__ import annotations

import msgspec


class RunUsage(msgspec.Struct, frozen=True):
    """One run. Times in seconds since the simulation began.

    What it held and waited for is named as in ``Usage``; ``waits`` also has ``quota``, the seconds
    from its arrival until its quotas left room for it and those of actors that would have been more
    at once than a quota lets, and ``start``, from when there was room until the head began it.
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


class Forecast(msgspec.Struct, frozen=True):
    """All runs. ``makespan`` is the time of the last one's end, in seconds.

    ``utilisation`` is the share of ``slots`` and ``devices`` that was held on average over the
    makespan. ``waits`` has all waits of a cause together: their ``count``, and the ``mean`` and the
    ``longest`` in seconds. ``simulated_in`` are the seconds that the simulation took, in which it
    let ``events`` happen. ``ended_early`` says which quota ended runs before they were done,
    ``unfinished`` what runs that never ended wait for.
    """

    nodes: int
    slots: int
    runs_per_slot: int
    devices: int
    makespan: float
    utilisation: dict[str, float]
    waits: dict[str, dict[str, float]]
    usage: tuple[RunUsage, ...]
    events: int
    simulated_in: float
    ended_early: dict[str, str] = {}
    unfinished: dict[str, str] = {}
