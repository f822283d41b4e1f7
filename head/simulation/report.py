"""What a simulation found: the outcome of ``artos simulate``."""

from __future__ import annotations

import msgspec


class RunUsage(msgspec.Struct, frozen=True):
    """One run. Times in seconds since the simulation began; ``waits`` by what was waited for.

    A wait has ``count``, and ``mean`` and ``longest`` in seconds: for ``start`` (from its arrival
    until the head begins it), ``slot`` and ``device``.
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
    waits: dict[str, dict[str, float]]


class Forecast(msgspec.Struct, frozen=True):
    """All runs. ``makespan`` is the time of the last one's end, in seconds.

    ``utilisation`` is the share of ``slots`` and ``devices`` that was held on average over the
    makespan, ``waits`` as in ``RunUsage``. ``simulated_in`` are the seconds that the simulation
    took, in which it let ``events`` happen. ``unfinished`` says what runs that never ended wait
    for.
    """

    nodes: int
    slots: int
    devices: int
    makespan: float
    utilisation: dict[str, float]
    waits: dict[str, dict[str, float]]
    usage: tuple[RunUsage, ...]
    events: int
    simulated_in: float
    unfinished: dict[str, str] = {}
