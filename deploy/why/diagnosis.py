"""The bottleneck of a run: what it is worth most to remove. Pure."""

from __future__ import annotations

from collections.abc import Callable

from deploy.why.bottlenecks import (
    busy_machine,
    device_contention,
    lag_gate,
    learner,
    network,
    one_process,
    parked_too_eagerly,
    replay_ratio,
    restarts,
    slots,
    slow_disk,
    slow_environment,
    small_batch,
    stall,
    straggler,
    too_many_learners,
    too_many_threads,
)
from deploy.why.evidence import Evidence
from deploy.why.finding import Finding

LOOKED_FOR: tuple[Callable[[Evidence], Finding | None], ...] = (
    slow_environment.look,
    straggler.look,
    lag_gate.look,
    small_batch.look,
    slow_disk.look,
    too_many_threads.look,
    learner.look,
    too_many_learners.look,
    network.look,
    device_contention.look,
    parked_too_eagerly.look,
    replay_ratio.look,
    slots.look,
    restarts.look,
    stall.look,
    busy_machine.look,
)
IN_ONE_PROCESS = (
    one_process.look,
    small_batch.look,
    slow_disk.look,
    too_many_threads.look,
    device_contention.look,
    replay_ratio.look,
    stall.look,
    busy_machine.look,
)
"""Those that are there, and can be mended, where members take turns."""
_WORTH = 1.05
"""Less gain than this is no bottleneck."""


def findings(run: Evidence) -> list[Finding]:
    """All that are worth a change, the one that is worth most first."""
    looked_for = IN_ONE_PROCESS if run.history.inline else LOOKED_FOR
    found = [each for look in looked_for if (each := look(run)) and each.gain >= _WORTH]
    return sorted(found, key=lambda each: -each.worth)
