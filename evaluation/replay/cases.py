"""What is measured: hyper-parameters that both sides have, and the updates they are held to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """One update on ``batch`` rows for every ``every`` environment steps, after ``after`` steps."""

    algorithm: str
    env: str
    batch: int
    every: int
    steps: int
    quick: int
    hidden: tuple[int, ...] = (256, 256)
    after: int = 100

    @property
    def ratio(self) -> float:
        """How often each row is drawn."""
        return self.batch / self.every

    def due(self, steps: int) -> int:
        """The updates of a run of so many steps."""
        return (steps - self.after) // self.every


CASES = {
    "dqn": Case("dqn", "CartPole-v1", batch=64, every=4, steps=20_000, quick=1_024),
    "sac": Case("sac", "Pendulum-v1", batch=256, every=1, steps=2_000, quick=320),
}

_FEW = 10
"""Updates that a short run may make too many: those of a round, ahead of its rows."""


def as_asked(updates: int, due: int) -> int:
    """The updates that were made, which are as many as were asked for.

    Raises:
        SystemExit: they differ by more than 1 %, so that it would not be the same work.
    """
    if abs(updates - due) > max(0.01 * due, _FEW):
        raise SystemExit(f"{updates} updates were made, and {due} asked for")
    return updates
