"""The time of an update of SAC by Stable-Baselines3 or sbx (JAX), drawing included.

``python -m evaluation.replay.update_rivals --rival sbx --threads 2`` answers with ``update_ms``.
"""

from __future__ import annotations

import argparse
import os
from typing import Any

import gymnasium as gym
import numpy as np

from evaluation.baselines.timing import answer, on_cpus
from evaluation.replay.update import ACTIONS, BATCH, HIDDEN, OBSERVATIONS, ROWS, timed

PACKAGES = {"sb3": ("stable-baselines3", "torch"), "sbx": ("sbx-rl", "jax")}


class Still(gym.Env[np.ndarray[Any, Any], np.ndarray[Any, Any]]):
    """Spaces only: nothing is sampled."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (OBSERVATIONS,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (ACTIONS,), np.float32)

    def reset(self, **_: Any) -> tuple[np.ndarray[Any, Any], dict[str, Any]]:
        """Nothing happens."""
        return np.zeros(OBSERVATIONS, np.float32), {}

    def step(self, _: Any) -> tuple[np.ndarray[Any, Any], float, bool, bool, dict[str, Any]]:
        """Nothing happens."""
        return np.zeros(OBSERVATIONS, np.float32), 0.0, False, False, {}


def algorithms(library: str, threads: int) -> dict[str, Any]:
    """DQN, PPO and SAC of the library, which will compute with these threads."""
    if library == "sbx":
        many = "true" if threads > 1 else "false"
        os.environ["XLA_FLAGS"] = (  # before JAX is imported
            f"--xla_cpu_multi_thread_eigen={many} intra_op_parallelism_threads={threads}"
        )
        from sbx import DQN, PPO, SAC  # noqa: PLC0415
    else:
        import torch  # noqa: PLC0415
        from stable_baselines3 import DQN, PPO, SAC  # noqa: PLC0415

        torch.set_num_threads(threads)
    return {"dqn": DQN, "ppo": PPO, "sac": SAC}


def model_of(library: str, threads: int) -> Any:
    """SAC of the library with these threads, and random transitions in its replay buffer."""
    model = algorithms(library, threads)["sac"](
        "MlpPolicy", Still(), buffer_size=ROWS, batch_size=BATCH, device="cpu",
        policy_kwargs={"net_arch": [*HIDDEN]},
    )  # fmt: skip
    model._setup_learn(1)
    rows, rng = model.replay_buffer, np.random.default_rng(0)
    for array in (rows.observations, rows.next_observations, rows.rewards):
        array[:] = rng.standard_normal(array.shape)
    rows.actions[:] = rng.uniform(-1, 1, rows.actions.shape)
    rows.pos, rows.full = 0, True
    return model


def main() -> None:
    """Measure once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rival", choices=sorted(PACKAGES), required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--updates", type=int, default=500)
    options = parser.parse_args()
    on_cpus(options.threads)
    model = model_of(options.rival, options.threads)

    def updates(count: int) -> None:
        model.train(gradient_steps=count, batch_size=BATCH)
        if options.rival == "sbx":
            import jax  # noqa: PLC0415

            jax.block_until_ready(model.policy.qf_state.params)

    answer({"update_ms": timed(updates, options.updates)}, PACKAGES[options.rival])


if __name__ == "__main__":
    main()
