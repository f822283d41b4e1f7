"""What is learned, with which settings, by which libraries; without imports of any."""

from __future__ import annotations

from evaluation.references.task import CONTRIB, POLICY_EPS, RLLIB, SAMPLE_FACTORY, Task

_TWO = [64, 64]

TASKS = {
    "PPO, CartPole": Task(
        "CartPole-v1", 100_000, 0.0,
        {"algorithm": "ppo", "actors": 1, "envs": 8, "steps": 128, "epochs": 4, "minibatches": 4,
         "lr": 2.5e-4, "anneal": False, "ent_coef": 0.01, "clip": 0.2, "vf_coef": 1.0},
        {"algorithm": "PPO", "envs": 8, "n_steps": 128, "n_epochs": 4, "batch_size": 256,
         "learning_rate": 2.5e-4, "ent_coef": 0.01, "clip_range": 0.2,
         "policy_kwargs": {"net_arch": _TWO}},
    ),
    "DQN, CartPole": Task(
        "CartPole-v1", 50_000, 0.0,
        {"algorithm": "dqn", "actors": 1, "envs": 1, "steps": 8, "lr": 1e-3, "batch": 64,
         "replay_size": 50_000, "after": 1_000, "n_step": 1, "double": False, "tau": 1.0,
         "target_every": 80, "ratio": 32, "epsilon": 0.04, "explore": 0.16, "sync": 4},
        {"algorithm": "DQN", "envs": 1, "learning_rate": 1e-3, "batch_size": 64,
         "buffer_size": 50_000, "learning_starts": 1_000, "target_update_interval": 160,
         "train_freq": 8, "gradient_steps": 4, "exploration_final_eps": 0.04,
         "exploration_fraction": 0.16, "policy_kwargs": {"net_arch": [256, 256]}},
    ),
    "SAC, Pendulum": Task(
        "Pendulum-v1", 10_000, -1_600.0,
        {"algorithm": "sac", "actors": 1, "envs": 1, "steps": 1, "lr": 1e-3, "critic_lr": 1e-3,
         "temperature_lr": 1e-3, "after": 500, "batch": 256, "sync": 1},
        {"algorithm": "SAC", "envs": 1, "learning_rate": 1e-3, "learning_starts": 500,
         "batch_size": 256, "policy_kwargs": {"net_arch": [256, 256]}},
    ),
    "TD3, Pendulum": Task(
        "Pendulum-v1", 10_000, -1_600.0,
        {"algorithm": "td3", "actors": 1, "envs": 1, "steps": 1, "lr": 1e-3, "critic_lr": 1e-3,
         "after": 500, "batch": 256, "sync": 1, "noise": 0.1},
        {"algorithm": "TD3", "envs": 1, "learning_rate": 1e-3, "learning_starts": 500,
         "batch_size": 256, "noise": 0.1, "policy_kwargs": {"net_arch": [256, 256]}},
    ),
    "PPO with a memory, CartPole without velocities": Task(
        "evaluation.workloads.cartpole_blind:make", 60_000, 0.0,
        {"algorithm": "ppo", "actors": 1, "envs": 8, "steps": 128, "epochs": 10, "minibatches": 4,
         "lr": 5e-4, "anneal": False, "ent_coef": 0.0, "clip": 0.2, "recurrent": True,
         "hidden": "", "memory": 64, "vf_coef": 1.0},
        {"algorithm": "RecurrentPPO", "envs": 8, "n_steps": 128, "n_epochs": 10,
         "batch_size": 256, "learning_rate": 5e-4, "ent_coef": 0.0, "clip_range": 0.2,
         "policy_kwargs": {"net_arch": [], "lstm_hidden_size": 64}},
        CONTRIB,
    ),
    "IMPALA, CartPole": Task(
        "CartPole-v1", 100_000, 0.0,
        {"algorithm": "impala", "actors": 2, "envs": 4, "steps": 50, "n": 2, "lr": 5e-4, "lam": 1.0,
         "ent_coef": 0.01, "vf_coef": 0.5, "max_grad_norm": 40},
        {"algorithm": "IMPALA", "runners": 2, "envs": 4, "fragment": 50, "lr": 5e-4,
         "train_batch_size_per_learner": 400, "entropy_coeff": 0.01, "vf_loss_coeff": 0.5,
         "grad_clip": 40.0},
        RLLIB,
    ),
    "APPO, CartPole": Task(
        "CartPole-v1", 100_000, 0.0,
        {"algorithm": "appo", "actors": 2, "envs": 4, "steps": 64, "n": 1, "lr": 5e-4,
         "epochs": 1, "minibatches": 1, "clip": 0.2, "ent_coef": 0.01, "vf_coef": 1.0,
         "max_grad_norm": 40, "lam": 1.0, "normalize_advantages": True},
        {"num_workers": 2, "num_envs_per_worker": 4, "worker_num_splits": 1, "rollout": 64,
         "batch_size": 256, "num_batches_per_epoch": 1, "num_epochs": 1, "use_rnn": False,
         "async_rl": True, "with_vtrace": False, "gae_lambda": 1.0, "learning_rate": 5e-4,
         "adam_eps": POLICY_EPS, "ppo_clip_ratio": 0.2, "exploration_loss_coeff": 0.01,
         "value_loss_coeff": 0.5, "max_grad_norm": 40.0, "gamma": 0.99, "normalize_input": False,
         "normalize_returns": False, "nonlinearity": "tanh", "actor_critic_share_weights": False},
        SAMPLE_FACTORY,
    ),
    "APPO beside RLlib's, CartPole": Task(
        "CartPole-v1", 100_000, 0.0,
        {"algorithm": "appo", "actors": 2, "envs": 4, "steps": 64, "n": 1, "lr": 5e-4,
         "epochs": 1, "minibatches": 1, "clip": 0.2, "ent_coef": 0.01, "vf_coef": 0.5,
         "max_grad_norm": 40, "lam": 1.0},
        {"algorithm": "APPO", "runners": 2, "envs": 4, "fragment": 64, "lr": 5e-4,
         "train_batch_size_per_learner": 256, "clip_param": 0.2, "entropy_coeff": 0.01,
         "vf_loss_coeff": 0.5, "grad_clip": 40.0,
         "use_circular_buffer": False, "simple_queue_size": 3, "target_network_update_freq": 0},
        RLLIB,
    ),
}  # fmt: skip
"""Networks, batches, step sizes and how often rows are learned from are the same on both sides.

So are the weights that PPO, IMPALA and APPO begin with; a memory has those of its library.

What is not: our memory is a GRU and theirs an LSTM, each between what is seen and the heads, with
no other layers. Our critics of SAC and TD3 begin with other random weights. IMPALA and APPO sample
and learn at the same time, on both sides, and so do ours that draw from replay (DQN, SAC, TD3),
where theirs take turns: how old rows are, and weights that act, depends on the machine. Ours that
draw from replay count rows that only reset, so they end by as many steps earlier as there were
episodes. Ours with several environments tell an episode when its round ends; it counts for the
middle of the round. RLlib tells means of ten episodes, every 500 steps or more; its APPO learns
from each batch once, and corrects for lag by the policy that an update begins with, as ours does,
not twice and by one of many updates ago. Sample Factory 2.1.1 fails with its V-trace, and has
returns of the same length (GAE with λ = 1) instead.
"""
