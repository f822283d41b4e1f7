"""SAC as a trigger configuration: uniform replay, learner and actors at work at the same time."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from artos.actors.rollout import RolloutActor
from artos.learners.compiler import Switch
from artos.learners.sac import SAC
from artos.policies.choosing import require_actions
from artos.policies.squashed import Softmax, SquashedGaussian
from artos.scaling.actor_count import ActorsSetting
from artos.workload import Workload
from triggers.algorithms.defaults import require_numbers
from triggers.algorithms.replaying import Replay, pattern, replay_workload


def workload(
    env: Annotated[str, "a Gymnasium id, or your own module:factory"] = "Pendulum-v1",
    actors: Annotated[ActorsSetting, "how many processes sample, and when that changes"] = 1,
    total_steps: Annotated[int, "environment steps in all"] = 20_000,
    *,
    envs: Annotated[int, "environments an actor steps side by side"] = 1,
    steps: Annotated[int, "steps of each environment in a round"] = 8,
    hidden: Annotated[tuple[int, ...], "units of the hidden layers"] = (256, 256),
    normalize: Annotated[bool, "scale observations by running statistics"] = False,
    replay: Annotated[Replay, "how transitions are drawn"] = "uniform",
    replay_size: Annotated[int, "transitions that are kept"] = 1_000_000,
    alpha: Annotated[float, "how far priorities count, 0 to 1 (prioritised)"] = 0.6,
    batch: Annotated[int, "transitions in an update"] = 256,
    ratio: Annotated[float | None, "how often each transition is drawn; none: batch"] = None,
    after: Annotated[int, "transitions before the first update, which are random"] = 1_000,
    n_step: Annotated[int, "rewards summed before bootstrapping"] = 1,
    gamma: Annotated[float, "discount of later rewards, 0 to 1"] = 0.99,
    lr: Annotated[float, "step size of the policy"] = 3e-4,
    critic_lr: Annotated[float, "step size of the critics"] = 3e-4,
    temperature: Annotated[float, "weight of the entropy at first"] = 1.0,
    temperature_lr: Annotated[float, "step size of that weight; 0: keep it"] = 3e-4,
    target_entropy: Annotated[float | None, "wanted entropy; none: by the action space"] = None,
    tau: Annotated[float, "share of the way targets go in an update"] = 0.005,
    sync: Annotated[int, "updates between versions"] = 8,
    threads: Annotated[int, "threads of the learner; 0: one, or all free for large networks"] = 0,
    compile: Annotated[Switch, "compile the update; worth it on GPUs"] = "off",
) -> Workload:
    """Soft actor-critic on continuous actions with bounds, or on discrete ones.

    Actors and learner work at the same time; after ``after`` transitions each one is drawn
    ``ratio`` times on average, by default one update per environment step.
    """
    actor = RolloutActor(env, None, envs)
    require_actions(actor.spec, "SAC", "box", "discrete")
    require_numbers(actor, normalize)
    kind = SquashedGaussian if actor.spec.actions.kind == "box" else Softmax
    actor.policy = partial(kind, hidden=hidden, random=after, normalize=normalize)
    sample = pattern(replay, batch, n_step, gamma, alpha)
    ratio = float(batch) if ratio is None else ratio
    learner = SAC(
        lr=lr, critic_lr=critic_lr, temperature=temperature, temperature_lr=temperature_lr,
        target_entropy=target_entropy, hidden=hidden, tau=tau, sync=sync, threads=threads,
        compile=compile,
    )  # fmt: skip
    return replay_workload(
        "sac", actor, learner, sample, ratio=ratio, after=after, actors=actors, steps=steps,
        total_steps=total_steps, replay_size=min(replay_size, total_steps or replay_size),
    )  # fmt: skip
