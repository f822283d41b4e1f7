"""What is measured: hyper-parameters that both sides have."""

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


CASES = {
    "dqn": Case("dqn", "CartPole-v1", batch=64, every=4, steps=20_000, quick=1_000),
    "sac": Case("sac", "Pendulum-v1", batch=256, every=1, steps=2_000, quick=300),
}
