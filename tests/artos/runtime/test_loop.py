"""The loop of a supervisor, whose sleep may be longer than it meant it to be."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from artos.clock import ManualClock, WakingClock
from artos.runtime.loop import TICK, Loop
from artos.specs.members import Member


class Sleeper(Loop):
    """Notes when it ticks; each sleep takes as long as it is told beforehand."""

    def __init__(self, sleeps: list[float]) -> None:
        self.sleeps, self.real = sleeps, ManualClock(1000.0)
        self.clock = WakingClock(self.real)
        self.ticks: list[float] = []
        board: Any = SimpleNamespace(doorbell=SimpleNamespace(wait=self._wait), changed=lambda: ())
        super().__init__(board, self.clock)

    def _wait(self, seconds: float) -> None:
        del seconds
        self.real.advance(self.sleeps.pop(0))

    def _changed(self, member: Member) -> None:
        del member

    def _follow_children(self) -> None:
        """It has none."""

    def _tick(self) -> None:
        self.ticks.append(self.clock.now())


@pytest.mark.parametrize(
    ("sleep", "counts"), [(TICK, TICK), (0.0, 0.0), (TICK + 0.9, TICK + 0.9), (3600.0, TICK)]
)
def test_no_time_passes_while_the_process_is_stopped(sleep: float, counts: float) -> None:
    """A deadline of minutes is not over for those that were stopped with it."""
    loop = Sleeper([sleep, TICK, TICK])
    loop.serve(lambda: not loop.sleeps, lambda: None)
    assert loop.clock.now() == pytest.approx(1000.0 + counts + 2 * TICK)
    assert loop.ticks[-1] == loop.clock.now(), "it goes on as before"
