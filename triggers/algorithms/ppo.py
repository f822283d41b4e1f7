"""PPO as a trigger configuration: full batch update, on-policy synchronisation (paper Table 3)."""

from __future__ import annotations

from artos.actors.rollout import RolloutActor
from artos.learners.ppo import PPO
from artos.policies.build import Policy
from artos.scaling import ActorsSetting, actors_of
from artos.spec import Workload
from triggers import ObjectKeyTrigger
from triggers.algorithms.pipelines import Pipeline, learner_rows


def workload(
    env: str = "CartPole-v1",
    actors: ActorsSetting = 2,
    total_steps: int = 500_000,
    *,
    envs: int = 4,
    clip_rewards: bool | None = None,
    terminal_lives: bool = False,
    steps: int = 128,
    max_lag: int = 0,
    pipeline: Pipeline = "none",
    hidden: tuple[int, ...] = (64, 64),
    lr: float | None = None,
    anneal: bool = True,
    gamma: float = 0.99,
    lam: float = 0.95,
    epochs: int = 4,
    minibatches: int = 4,
    clip: float | None = None,
    value_clip: float | None = None,
    vf_coef: float = 0.5,
    ent_coef: float = 0.01,
    max_grad_norm: float | None = 0.5,
    normalize_advantages: bool = True,
    target_kl: float | None = None,
    bfloat16: bool = False,
    threads: int = 0,
) -> Workload:
    """PPO on any environment.

    ``max_lag=0`` alternates sampling and learning, exactly on-policy; ``max_lag=1`` samples the
    next round while the learner works on the last: rows are at most one version old when consumed.
    An update learns from a round of all actors, however many ``actors`` says there are by then.
    ``pipeline`` says what is done before it is there, see ``triggers.algorithms.pipelines``: with
    ``none``, ``dual`` and ``full`` updates are the same, with ``minibatch`` and ``dual+minibatch``
    the minibatches of the first epoch are made of the rows of those who were first.
    ``lr`` and ``clip`` default to 2.5e-4 and 0.1 on images, 1e-3 and 0.2 elsewhere.
    """
    actor = RolloutActor(
        env, Policy(hidden=hidden), envs, clip_rewards=clip_rewards, terminal_lives=terminal_lives
    )
    images = any(len(part.shape) > 1 for part in actor.spec.parts)
    lr = lr if lr is not None else (2.5e-4 if images else 1e-3)
    clip = clip if clip is not None else (0.1 if images else 0.2)
    learner = PPO(
        lr=lr, anneal=anneal, gamma=gamma, lam=lam, epochs=epochs, minibatches=minibatches,
        clip=clip, value_clip=value_clip, vf_coef=vf_coef, ent_coef=ent_coef,
        max_grad_norm=max_grad_norm, normalize_advantages=normalize_advantages,
        target_kl=target_kl, bfloat16=bfloat16, threads=threads,
    )  # fmt: skip
    keys = tuple(key.name for key in actor.data_keys())
    together = max(1, actors_of(actors).most // max(1, minibatches))
    return Workload(
        name="ppo",
        actor=actor,
        learner=learner,
        triggers={
            **learner_rows(pipeline, keys, steps, together, max_lag),
            "actors.sample": ObjectKeyTrigger("model_param"),
        },
        actors=actors,
        steps=steps,
        total_steps=total_steps,
        settings={"lr": lr, "clip": clip},
    )
