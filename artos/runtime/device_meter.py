"""Asks a GPU's driver how long the GPU stood idle while the learner had it."""

from __future__ import annotations

import time
from collections.abc import Callable

from artos.pool.idle import IdleTime
from artos.system import gpus

_ASKED_EVERY = 1.0
"""Seconds between questions; drivers keep the samples of several seconds."""
Samples = Callable[[float], list[tuple[float, float]]]
"""The samples after a moment (seconds since the epoch), as ``IdleTime.sampled`` takes them."""


class DeviceMeter:
    """Told of each update; asks for ``samples`` when it is, but only once a second."""

    def __init__(self, samples: Samples, clock: Callable[[], float] = time.time) -> None:
        self._samples, self._clock = samples, clock
        self._idle = IdleTime()
        self._asked = clock()

    def updated(self, seconds: float) -> float:
        """An update that took so many ``seconds`` ends now: the idle seconds found since."""
        now = self._clock()
        self._idle.updated(now - seconds, now)
        if now - self._asked < _ASKED_EVERY:
            return 0.0
        since, self._asked = max(self._idle.newest, self._asked), now
        return self._idle.sampled(self._samples(since))


def meter_of(device: str) -> DeviceMeter | None:
    """The meter of a device as torch names it; None where only the clock can tell."""
    if not device.startswith("cuda"):
        return None
    from artos.learners.device import uuid_of  # noqa: PLC0415  # loads torch

    uuid = uuid_of(int(device.partition(":")[2] or 0))
    return DeviceMeter(lambda since: gpus.busy_samples(uuid, since))
