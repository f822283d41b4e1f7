"""PPO and IMPALA of RLlib (new API stack): environment steps sampled per second, after a warm-up.

Its PPO is made what the others' is: by default it has a lambda of 1, a penalty on divergence, and a
bound on the loss of a value.

``python -m evaluation.throughput.rllib_side --case cartpole --threads 2 --seconds 10``
"""

from __future__ import annotations

import argparse
import math
import os
import time
from typing import Any

import ale_py
import gymnasium as gym
import torch
from ray.rllib.algorithms.impala import IMPALAConfig
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.env.wrappers.atari_wrappers import wrap_atari_for_new_api_stack
from ray.tune.registry import register_env

from evaluation.baselines.ray_cluster import cluster
from evaluation.baselines.timing import answer

CASES = ("cartpole", "cartpole-wide", "cartpole-impala", "pong", "pong-impala")
WARM_UP_SECONDS = 4.0


def make_pong(config: Any) -> Any:
    """Pong with RLlib's own preprocessing."""
    gym.register_envs(ale_py)
    game = gym.make("PongNoFrameskip-v4")
    return wrap_atari_for_new_api_stack(game, dim=84, framestack=4, frameskip=4)


def network(pong: bool) -> Any:
    """Two layers of 64 units, or the Nature convolutions."""
    if not pong:
        return DefaultModelConfig(
            fcnet_hiddens=[64, 64], fcnet_activation="tanh", vf_share_layers=False
        )
    # RLlib pads "same" by default: five times the parameters of the Nature network.
    filters = [[32, 8, 4, "valid"], [64, 4, 2, "valid"], [64, 3, 1, "valid"]]
    return DefaultModelConfig(
        conv_filters=filters, conv_activation="relu", head_fcnet_hiddens=[512], vf_share_layers=True
    )


def config(case: str) -> Any:
    """Two runners of four environments; "wide" has 32 each and one epoch of large minibatches."""
    register_env("pong", make_pong)
    pong, impala, wide = "pong" in case, "impala" in case, "wide" in case
    base = IMPALAConfig() if impala else PPOConfig()
    base = base.environment("pong" if pong else "CartPole-v1")
    base = base.env_runners(num_env_runners=2, num_envs_per_env_runner=32 if wide else 4)
    base = base.rl_module(model_config=network(pong)).learners(num_learners=0)
    if impala:
        return base.training(train_batch_size_per_learner=500, lr=2.5e-4)
    base = base.env_runners(rollout_fragment_length=128)
    batch, minibatch, epochs = (8192, 1024, 1) if wide else (1024, 256, 4)
    return base.training(
        train_batch_size_per_learner=batch,
        minibatch_size=minibatch,
        num_epochs=epochs,
        lr=2.5e-4,
        lambda_=0.95,
        clip_param=0.1 if pong else 0.2,
        vf_clip_param=math.inf,
        vf_loss_coeff=0.25,  # of the square; ours is 0.5 of half of it
        entropy_coeff=0.01,
        use_kl_loss=False,
        kl_coeff=0.0,
        grad_clip=0.5,
    )


def sampled(result: dict[str, Any]) -> int:
    """Environment steps so far, as counted by the runners."""
    return int(result.get("env_runners", {}).get("num_env_steps_sampled_lifetime", 0))


def speed(algorithm: Any, seconds: float) -> float:
    """Steps per second of whole ``train`` calls over at least ``seconds``."""
    start, result = time.perf_counter(), algorithm.train()
    while time.perf_counter() - start < WARM_UP_SECONDS:
        result = algorithm.train()
    before, start = sampled(result), time.perf_counter()
    while (elapsed := time.perf_counter() - start) < seconds:
        result = algorithm.train()
    return (sampled(result) - before) / elapsed


def main() -> None:
    """Measure once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", choices=CASES, default="cartpole")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    os.environ |= {"OMP_NUM_THREADS": str(options.threads), "RAY_USAGE_STATS_ENABLED": "0"}
    torch.set_num_threads(options.threads)
    with cluster(cpus=8, store_bytes=2 << 30):
        algorithm = config(options.case).build_algo()
        try:
            pace = speed(algorithm, options.seconds)
        finally:
            algorithm.stop()
    answer({"steps_per_second": pace}, ("ray", "torch", "gymnasium"))


if __name__ == "__main__":
    main()
