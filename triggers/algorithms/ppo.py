"""PPO as a trigger configuration: full batch update, on-policy synchronisation (paper Table 3)."""

from __future__ import annotations

from typing import Annotated, Any

from artos.actors.rollout import RolloutActor
from artos.learners.compiler import Switch
from artos.learners.ppo import PPO
from artos.scaling.actor_count import ActorsSetting, actors_of
from artos.workload import Workload
from triggers import ObjectKeyTrigger
from triggers.algorithms.defaults import actor_critic, minibatches_of, ppo_defaults
from triggers.algorithms.pipelines import Pipeline, learner_rows


def workload(
    env: Annotated[str, "a Gymnasium id, or your own module:factory"] = "CartPole-v1",
    actors: Annotated[ActorsSetting, "how many processes sample, and when that changes"] = 2,
    total_steps: Annotated[int, "environment steps in all"] = 500_000,
    *,
    envs: Annotated[int, "environments an actor steps side by side"] = 4,
    clip_rewards: Annotated[bool | None, "clip rewards to -1 ... 1; none: on Atari"] = None,
    terminal_lives: Annotated[bool, "a lost life ends the learner's episode (Atari)"] = False,
    steps: Annotated[int | None, "steps of each environment in a round; none: 128, 256 *"] = None,
    max_lag: Annotated[int, "versions rows may be old; 0: sample and learn in turn"] = 0,
    pipeline: Annotated[Pipeline, "what is done before a batch is complete"] = "none",
    hidden: Annotated[tuple[int, ...], "units of the hidden layers"] = (64, 64),
    recurrent: Annotated[bool, "give the policy a memory of its episode (a GRU)"] = False,
    memory: Annotated[int, "units of that memory"] = 64,
    normalize: Annotated[bool, "scale observations and rewards by running statistics"] = False,
    correlation: Annotated[float, "of continuous actions' noise, step to step, 0 to below 1"] = 0.5,
    lr: Annotated[float | None, "step size; none: 1e-3, 3e-4 *, 2.5e-4 on images"] = None,
    anneal: Annotated[bool | None, "lower lr to 0 over the run; none: true, false *"] = None,
    gamma: Annotated[float, "discount of later rewards, 0 to 1"] = 0.99,
    lam: Annotated[float, "GAE's lambda, 0 to 1"] = 0.95,
    epochs: Annotated[int | None, "passes over each batch; none: 4, 10 *"] = None,
    minibatches: Annotated[int | None, "steps of Adam in a pass; none: 4, rows / 64 *"] = None,
    clip: Annotated[float | None, "bound of the ratio; none: 0.1 on images, 0.2 elsewhere"] = None,
    value_clip: Annotated[float | None, "bound of a value's change; none: no bound"] = None,
    vf_coef: Annotated[float, "weight of the value loss"] = 0.5,
    ent_coef: Annotated[float | None, "weight of the entropy bonus; none: 0.01, 0 *"] = None,
    max_grad_norm: Annotated[float | None, "longest gradient; none: no limit"] = 0.5,
    normalize_advantages: Annotated[bool, "mean 0 and variance 1 in each batch"] = True,
    target_kl: Annotated[float | None, "divergence that ends an update; none: never"] = None,
    bfloat16: Annotated[bool, "run the learner's network in bfloat16"] = False,
    threads: Annotated[int, "threads of the learner; 0: one, or all free for large networks"] = 0,
    compile: Annotated[Switch, "compile the update; worth it on GPUs"] = "off",
) -> Workload:
    """PPO on any environment.

    ``max_lag=0`` alternates sampling and learning, exactly on-policy; ``max_lag=1`` samples the
    next round while the learner works on the previous one: rows are at most one version old when
    consumed. An update learns from one round of all actors that take part at that time.
    ``pipeline`` says what is done before that round is complete, see
    ``triggers.algorithms.pipelines``: with ``none``, ``dual`` and ``full`` updates are the same,
    with ``minibatch`` and ``dual+minibatch`` the minibatches of the first epoch are made of the
    rows that arrived first.

    ``*`` marks what the default is where actions are continuous and no observation is an image.
    """
    actor = actor_critic(
        env, envs, hidden=hidden, recurrent=recurrent, memory=memory, normalize=normalize,
        clip_rewards=clip_rewards, terminal_lives=terminal_lives, correlation=correlation,
    )  # fmt: skip
    asked = {
        "steps": steps, "lr": lr, "anneal": anneal, "epochs": epochs, "minibatches": minibatches,
        "clip": clip, "ent_coef": ent_coef,
    }  # fmt: skip
    found = _settings(asked, actor, recurrent, actors)
    learner = PPO(
        **{name: value for name, value in found.items() if name != "steps"},
        gamma=gamma, lam=lam, value_clip=value_clip, vf_coef=vf_coef,
        max_grad_norm=max_grad_norm, normalize_advantages=normalize_advantages,
        normalize_rewards=normalize,
        target_kl=target_kl, bfloat16=bfloat16, threads=threads, compile=compile,
    )  # fmt: skip
    keys = tuple(key.name for key in actor.data_keys())
    together = max(1, actors_of(actors).most // max(1, found["minibatches"]))
    return Workload(
        name="ppo",
        actor=actor,
        learner=learner,
        triggers={
            **learner_rows(pipeline, keys, found["steps"], together, max_lag),
            "actors.sample": ObjectKeyTrigger("model_param"),
        },
        actors=actors,
        steps=found["steps"],
        total_steps=total_steps,
        settings=found,
    )


def _settings(
    asked: dict[str, Any], actor: RolloutActor, recurrent: bool, actors: ActorsSetting
) -> dict[str, Any]:
    """What was asked for, and defaults for the rest."""
    defaults = ppo_defaults(actor.spec)
    found = {name: defaults[name] if v is None else v for name, v in asked.items()}
    if found["minibatches"] is None:
        # Sequences are not cut, and there are few of them.
        rows: int = actor.envs * found["steps"]
        found["minibatches"] = 4 if recurrent else minibatches_of(rows, actors_of(actors).least)
    return found
