"""Algorithms beside the seven of ``references``, set alike on both sides."""

from __future__ import annotations

from evaluation.references.task import CONTRIB, EVOSAX, TIANSHOU, Task

_TWO, _WIDE = [64, 64], [256, 256]

TASKS = {
    "A2C, CartPole": Task(
        "CartPole-v1", 60_000, 0.0,
        {"algorithm": "a2c", "actors": 1, "envs": 8, "steps": 5, "lr": 7e-4,
         "vf_coef": 1.0},
        {"algorithm": "A2C", "envs": 8, "n_steps": 5, "learning_rate": 7e-4,
         "policy_kwargs": {"net_arch": _TWO}},
        bar=150.0,
    ),
    "TRPO, CartPole": Task(
        "CartPole-v1", 50_000, 0.0,
        {"algorithm": "trpo", "actors": 1, "envs": 8, "steps": 128, "epochs": 10, "minibatches": 4,
         "lr": 1e-3, "vf_coef": 2.0, "max_grad_norm": "none", "conjugate_steps": 10},
        {"algorithm": "TRPO", "envs": 8, "n_steps": 128, "n_critic_updates": 10,
         "batch_size": 256, "learning_rate": 1e-3, "cg_max_steps": 10,
         "policy_kwargs": {"net_arch": _TWO}},
        CONTRIB,
        bar=200.0,
    ),
    "DDPG, Pendulum": Task(
        "Pendulum-v1", 7_000, -1_600.0,
        {"algorithm": "ddpg", "actors": 1, "envs": 1, "steps": 1, "lr": 1e-3, "critic_lr": 1e-3,
         "after": 500, "batch": 256, "sync": 1, "noise": 0.1},
        {"algorithm": "DDPG", "envs": 1, "learning_rate": 1e-3, "learning_starts": 500,
         "batch_size": 256, "noise": 0.1, "policy_kwargs": {"net_arch": _WIDE}},
        bar=-400.0,
    ),
    "CrossQ, Pendulum": Task(
        "Pendulum-v1", 5_000, -1_600.0,
        {"algorithm": "crossq", "actors": 1, "envs": 1, "steps": 1, "after": 500, "batch": 256,
         "sync": 1, "critic_hidden": "256,256"},
        {"algorithm": "CrossQ", "envs": 1, "learning_rate": 1e-3, "learning_starts": 500,
         "batch_size": 256, "policy_kwargs": {"net_arch": _WIDE}},
        CONTRIB,
        bar=-400.0,
    ),
    "SAC with HER, a point that reaches another": Task(
        "evaluation.workloads.reach:make", 6_000, -25.0,
        {"algorithm": "sac", "actors": 1, "envs": 1, "steps": 1, "lr": 1e-3, "critic_lr": 1e-3,
         "temperature_lr": 1e-3, "after": 500, "batch": 256, "sync": 1, "her": 0.8, "gamma": 0.95},
        {"algorithm": "SAC", "envs": 1, "learning_rate": 1e-3, "learning_starts": 500,
         "batch_size": 256, "gamma": 0.95, "her": 0.8, "policy_kwargs": {"net_arch": _WIDE}},
        bar=-10.0,
    ),
    "SAC with discrete actions, CartPole": Task(
        "CartPole-v1", 10_000, 0.0,
        {"algorithm": "sac", "actors": 1, "envs": 1, "steps": 1, "lr": 1e-3, "critic_lr": 1e-3,
         "temperature_lr": 1e-3, "after": 1_000, "batch": 64, "sync": 1, "hidden": "64,64",
         "target_entropy": 0.35},
        {"algorithm": "DiscreteSAC", "hidden": _TWO, "lr": 1e-3, "after": 1_000, "batch": 64,
         "collected": 1, "updates": 1, "target_entropy": 0.35},
        TIANSHOU,
        bar=100.0,
    ),
    "Rainbow, CartPole": Task(
        "CartPole-v1", 20_000, 0.0,
        {"algorithm": "rainbow", "actors": 1, "envs": 1, "steps": 8, "lr": 1e-3, "batch": 64,
         "after": 1_000, "ratio": 16, "sync": 2, "hidden": "128,128", "v_min": 0, "v_max": 100,
         "max_grad_norm": "none", "target_every": 100, "n_step": 1, "replay_size": 50_000},
        {"algorithm": "Rainbow", "hidden": [128, 128], "lr": 1e-3, "batch": 64, "after": 1_000,
         "collected": 8, "updates": 2, "v_min": 0.0, "v_max": 100.0, "target_every": 100,
         "n_step": 1, "replay_size": 50_000},
        TIANSHOU,
        bar=100.0,
    ),
    "ES, CartPole": Task(
        "CartPole-v1", 400_000, 0.0,
        {"algorithm": "es", "actors": 1, "envs": 16, "steps": 500, "hidden": "32",
         "sigma": 0.1, "lr": 0.03, "weight_decay": 0.005},
        {"algorithm": "Open_ES", "envs": 16, "steps": 500, "hidden": [32], "sigma": 0.1,
         "lr": 0.03, "weight_decay": 0.005},
        EVOSAX,
        bar=200.0,
    ),
}  # fmt: skip
"""Set alike, also in what one name stands for: our loss of a value is half of a square.

What is not: Tianshou's Rainbow draws its
noise for each batch as ours does, also where it acts; its priorities are cross-entropies and ours
divergences (KL), which are smaller by the entropy of what is wanted. TRPO's curvature is that of
the exact divergence there, of whole distributions, which also bounds the step; ours knows the
actions of the rows alone (an empirical Fisher matrix, and a sampled divergence). Of evosax episodes
are played one after the other, ours next to each other. DDPG, CrossQ, SAC and Rainbow of ours
sample and learn at the same time, where the others take turns; how steps are counted is told in
``references/tasks.py``.
"""
