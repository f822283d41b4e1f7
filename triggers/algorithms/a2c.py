"""A2C as a trigger configuration: one gradient per round of all actors (paper Table 3)."""

from __future__ import annotations

from typing import Annotated

from artos.learners.a2c import A2C, Stepping
from artos.learners.compiler import Switch
from artos.scaling.actor_count import ActorsSetting
from artos.workload import Workload
from triggers import DataKeyTrigger, ObjectKeyTrigger
from triggers.algorithms.defaults import actor_critic, step_size


def workload(
    env: Annotated[str, "a Gymnasium id, or your own module:factory"] = "CartPole-v1",
    actors: Annotated[ActorsSetting, "how many processes sample, and when that changes"] = 2,
    total_steps: Annotated[int, "environment steps in all"] = 500_000,
    *,
    envs: Annotated[int, "environments an actor steps side by side"] = 4,
    clip_rewards: Annotated[bool | None, "clip rewards to -1 ... 1; none: on Atari"] = None,
    terminal_lives: Annotated[bool, "a lost life ends the learner's episode (Atari)"] = False,
    steps: Annotated[int, "steps of each environment in a round"] = 5,
    hidden: Annotated[tuple[int, ...], "units of the hidden layers"] = (64, 64),
    recurrent: Annotated[bool, "give the policy a memory of its episode (a GRU)"] = False,
    memory: Annotated[int, "units of that memory"] = 64,
    normalize: Annotated[bool, "scale observations and rewards by running statistics"] = False,
    lr: Annotated[float | None, "step size; none: 2.5e-4 on images, 1e-3 elsewhere"] = None,
    anneal: Annotated[bool, "lower lr to 0 over the run"] = False,
    optimiser: Annotated[Stepping, "what steps"] = "rmsprop",
    gamma: Annotated[float, "discount of later rewards, 0 to 1"] = 0.99,
    lam: Annotated[float, "GAE's lambda, 0 to 1; 1: n-step returns"] = 1.0,
    vf_coef: Annotated[float, "weight of the value loss"] = 0.5,
    ent_coef: Annotated[float, "weight of the entropy bonus"] = 0.0,
    max_grad_norm: Annotated[float | None, "longest gradient; none: no limit"] = 0.5,
    bfloat16: Annotated[bool, "run the learner's network in bfloat16"] = False,
    threads: Annotated[int, "threads of the learner; 0: one, or all free for large networks"] = 0,
    compile: Annotated[Switch, "compile the update; worth it on GPUs"] = "off",
) -> Workload:
    """A2C on any environment.

    Sampling and learning alternate: an update is one gradient step with one round of all actors
    that take part, so rows are never older than the newest version.
    """
    actor = actor_critic(
        env, envs, hidden=hidden, recurrent=recurrent, memory=memory, normalize=normalize,
        clip_rewards=clip_rewards, terminal_lives=terminal_lives,
    )  # fmt: skip
    lr = step_size(lr, actor.spec)
    learner = A2C(
        lr=lr, anneal=anneal, optimiser=optimiser, gamma=gamma, lam=lam, vf_coef=vf_coef,
        ent_coef=ent_coef, max_grad_norm=max_grad_norm, normalize_rewards=normalize,
        bfloat16=bfloat16, threads=threads, compile=compile,
    )  # fmt: skip
    keys = tuple(key.name for key in actor.data_keys())
    return Workload(
        name="a2c",
        actor=actor,
        learner=learner,
        triggers={
            "learner.update": DataKeyTrigger(keys, size=steps, max_lag=0),
            "actors.sample": ObjectKeyTrigger("model_param"),
        },
        actors=actors,
        steps=steps,
        total_steps=total_steps,
        settings={"lr": lr},
    )
