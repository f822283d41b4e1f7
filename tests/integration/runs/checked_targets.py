"""A2C and IMPALA whose targets are compared with what the environment says follows each state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from artos import A2C, IMPALA, Workload
from triggers.algorithms.a2c import workload as a2c
from triggers.algorithms.impala import workload as impala

GAMMA, LAM, CLIP_RHO, CLIP_C = 0.9, 0.8, 1.3, 1.1
NEXT = np.array([1, 0], np.float32)
ROWS = (
    "observations", "rewards", "bootstraps", "terminations", "truncations", "log_probs",
    "policy_version",
)  # fmt: skip


class Count(gym.Env[Any, Any]):
    """Counts up whatever is done; every second episode is truncated at 5, the others end at 7."""

    observation_space = spaces.Box(0, 100, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self) -> None:
        self.odd = False

    def look(self) -> Any:
        return np.array([self.at, self.odd], np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.at, self.odd = 0, not self.odd
        return self.look(), {}

    def step(self, action: Any) -> Any:
        self.at += 1
        ended = self.at == (5 if self.odd else 7)
        return self.look(), float(action), ended and not self.odd, ended and self.odd, {}


def same_step() -> Count:
    return Count()


def next_step(num_envs: int) -> SyncVectorEnv:
    return SyncVectorEnv([Count] * num_envs, autoreset_mode=AutoresetMode.NEXT_STEP)


def disabled(num_envs: int) -> SyncVectorEnv:
    return SyncVectorEnv([Count] * num_envs, autoreset_mode=AutoresetMode.DISABLED)


class Sequence:
    """The rows of one environment in a batch; ``seen`` are the learner's values of what follows."""

    def __init__(self, rows: Mapping[str, Any], a: int, e: int, seen: list[float]) -> None:
        self.rows = {name: rows[name][a] if rows[name].ndim == 2 else rows[name][a, :, e]
                     for name in rows}  # fmt: skip
        self.seen = seen

    def over(self, t: int) -> bool:
        return bool(self.rows["terminations"][t] or self.rows["truncations"][t])

    def hidden(self, t: int) -> bool:
        """No row of the batch holds the state that follows."""
        lost = self.rows["truncations"][t] and "valid" not in self.rows
        return bool(lost or t == len(self.seen) - 1) and not self.rows["terminations"][t]

    def following(self, t: int) -> float:
        if self.rows["terminations"][t]:
            return 0.0
        return float(self.rows["bootstraps"][t]) if self.hidden(t) else self.seen[t]

    def counts(self, t: int) -> bool:
        return "valid" not in self.rows or bool(self.rows["valid"][t])


class Checked(A2C):
    """Raises if a target is not what a plain sum makes of it; counts what it compared."""

    checked = exact = version = 0

    def _estimates(self, batch: Any, log_probs: Any, values: Any) -> Any:
        gains, targets = super()._estimates(batch, log_probs, values)
        names = (*ROWS, *(("valid",) if "valid" in batch.names else ()))
        rows = {name: batch.gather(name) for name in names}
        rows |= {"ratios": np.exp(log_probs - rows["log_probs"]), "values": values}
        for a, e in np.ndindex(batch.shape[0], batch.shape[2]):
            after = torch.from_numpy(rows["observations"][a, :, e] + NEXT)
            with torch.no_grad():
                seen = self.module.value({"observations": after}).tolist()
            self._compare(Sequence(rows, a, e, seen), targets[a, :, e])
        self.version += 1
        return gains, targets

    def _compare(self, of: Sequence, targets: Any) -> None:
        carried = 0.0
        for t in reversed(range(len(targets))):
            value, reward = float(of.rows["values"][t]), float(of.rows["rewards"][t])
            rho, c = self._clipped(float(of.rows["ratios"][t]))
            change = rho * (reward + GAMMA * of.following(t) - value)
            change += 0.0 if of.over(t) else GAMMA * LAM * c * carried
            carried = change
            if of.counts(t):
                np.testing.assert_allclose(targets[t], value + change, rtol=1e-4, atol=1e-4)
                self.checked += 1
                if of.hidden(t) and of.rows["policy_version"][t] == self.version:
                    np.testing.assert_allclose(of.following(t), of.seen[t], atol=1e-4)
                    self.exact += 1

    def _clipped(self, ratio: float) -> tuple[float, float]:
        np.testing.assert_allclose(ratio, 1, atol=1e-4)
        return 1.0, 1.0

    def update(self, batch: Any, call: Any) -> Any:
        metrics = super().update(batch, call)
        return metrics | {"checked": float(self.checked), "exact": float(self.exact)}


class CheckedIMPALA(Checked, IMPALA):
    """The same for V-trace."""

    def _clipped(self, ratio: float) -> tuple[float, float]:
        return min(CLIP_RHO, ratio), min(CLIP_C, ratio)


def checked_a2c(env: str) -> Workload:
    made = a2c(f"checked_targets:{env}", 2, 2_000, steps=13, envs=2)
    return _with(made, Checked(lr=0.01, gamma=GAMMA, lam=LAM))


def checked_impala(env: str, max_lag: int = 0) -> Workload:
    made = impala(f"checked_targets:{env}", 2, 2_000, steps=13, envs=2, max_lag=max_lag)
    more = {"clip_rho": CLIP_RHO, "clip_c": CLIP_C}
    return _with(made, CheckedIMPALA(lr=0.01, gamma=GAMMA, lam=LAM, **more))


def _with(made: Workload, learner: A2C) -> Workload:
    return Workload(
        name="checked", actor=made.actor, learner=learner, triggers=made.triggers,
        actors=made.actors, steps=made.steps, total_steps=made.total_steps,
    )  # fmt: skip
