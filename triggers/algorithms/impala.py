"""IMPALA as a trigger configuration: FIFO per actor, actors that never wait (paper Tables 1, 3)."""

from __future__ import annotations

from typing import Annotated

from artos.learners.a2c import Stepping
from artos.learners.compiler import Switch
from artos.learners.impala import IMPALA
from artos.scaling.actor_count import ActorsSetting, actors_of
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
    steps: Annotated[int, "steps of each environment in a round"] = 20,
    n: Annotated[int, "rounds an update learns from, each of another actor"] = 1,
    max_lag: Annotated[int | None, "versions rows may be old; none: so that nobody waits"] = None,
    hidden: Annotated[tuple[int, ...], "units of the hidden layers"] = (64, 64),
    recurrent: Annotated[bool, "give the policy a memory of its episode (a GRU)"] = False,
    memory: Annotated[int, "units of that memory"] = 64,
    normalize: Annotated[bool, "scale observations and rewards by running statistics"] = False,
    lr: Annotated[float | None, "step size; none: 2.5e-4 on images, 1e-3 elsewhere"] = None,
    anneal: Annotated[bool, "lower lr to 0 over the run"] = False,
    optimiser: Annotated[Stepping, "what steps"] = "adam",
    gamma: Annotated[float, "discount of later rewards, 0 to 1"] = 0.99,
    lam: Annotated[float, "V-trace's lambda, 0 to 1"] = 0.95,
    clip_rho: Annotated[float, "bound of the ratio that weighs a row"] = 1.0,
    clip_c: Annotated[float, "bound of the ratio that carries later rows back"] = 1.0,
    vf_coef: Annotated[float, "weight of the value loss"] = 0.5,
    ent_coef: Annotated[float, "weight of the entropy bonus"] = 0.01,
    max_grad_norm: Annotated[float | None, "longest gradient; none: no limit"] = 40.0,
    bfloat16: Annotated[bool, "run the learner's network in bfloat16"] = False,
    threads: Annotated[int, "threads of the learner; 0: one, or all free for large networks"] = 0,
    compile: Annotated[Switch, "compile the update; worth it on GPUs"] = "off",
) -> Workload:
    """IMPALA on any environment.

    An update takes the next ``n`` rounds that came, first come, first served. An actor goes on with
    its next round at once, with the newest weights there are; ``max_lag`` bounds how far actors are
    ahead of the learner, and V-trace corrects for the rest. By default every actor may have a round
    under way and another one that waits for the learner. With ``n`` above 1 an actor waits until
    its last round is taken, except if ``n`` is the number of actors.
    """
    actor = actor_critic(
        env, envs, hidden=hidden, recurrent=recurrent, memory=memory, normalize=normalize,
        clip_rewards=clip_rewards, terminal_lives=terminal_lives,
    )  # fmt: skip
    lr = step_size(lr, actor.spec)
    learner = IMPALA(
        lr=lr, anneal=anneal, optimiser=optimiser, gamma=gamma, lam=lam, clip_rho=clip_rho,
        clip_c=clip_c, vf_coef=vf_coef, ent_coef=ent_coef, max_grad_norm=max_grad_norm,
        normalize_rewards=normalize, bfloat16=bfloat16, threads=threads, compile=compile,
    )  # fmt: skip
    keys = tuple(key.name for key in actor.data_keys())
    max_lag = 2 * actors_of(actors).most // max(1, n) if max_lag is None else max_lag
    return Workload(
        name="impala",
        actor=actor,
        learner=learner,
        triggers={
            "learner.update": DataKeyTrigger(keys, n=n, size=steps, max_lag=max_lag),
            "actors.sample": ObjectKeyTrigger("model_param"),
        },
        actors=actors,
        steps=steps,
        total_steps=total_steps,
        settings={"lr": lr, "max_lag": max_lag},
    )
