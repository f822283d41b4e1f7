"""DQN as a trigger configuration: uniform or prioritised replay (paper Tables 1 and 3)."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from artos.actors.rollout import RolloutActor
from artos.learners.compiler import Switch
from artos.learners.dqn import DQN
from artos.policies.choosing import require_actions
from artos.policies.values import Epsilon, QNetwork
from artos.scaling.actor_count import ActorsSetting
from artos.workload import Workload
from triggers.algorithms.defaults import require_numbers
from triggers.algorithms.replaying import Replay, pattern, replay_workload


def workload(
    env: Annotated[str, "a Gymnasium id, or your own module:factory"] = "CartPole-v1",
    actors: Annotated[ActorsSetting, "how many processes sample, and when that changes"] = 1,
    total_steps: Annotated[int, "environment steps in all"] = 50_000,
    *,
    envs: Annotated[int, "environments an actor steps side by side"] = 4,
    clip_rewards: Annotated[bool | None, "clip rewards to -1 ... 1; none: on Atari"] = None,
    terminal_lives: Annotated[bool, "a lost life ends the learner's episode (Atari)"] = False,
    steps: Annotated[int, "steps of each environment in a round"] = 8,
    hidden: Annotated[tuple[int, ...], "units of the hidden layers"] = (256, 256),
    normalize: Annotated[bool, "scale observations by running statistics"] = False,
    dueling: Annotated[bool, "value and advantages apart"] = False,
    double: Annotated[bool, "choose by the network, rate by its target"] = True,
    replay: Annotated[Replay, "how transitions are drawn"] = "uniform",
    replay_size: Annotated[int, "transitions that are kept"] = 100_000,
    alpha: Annotated[float, "how far priorities count, 0 to 1 (prioritised)"] = 0.6,
    batch: Annotated[int, "transitions in an update"] = 64,
    ratio: Annotated[float, "how often each transition is drawn"] = 16.0,
    after: Annotated[int, "transitions before the first update"] = 1_000,
    n_step: Annotated[int, "rewards summed before bootstrapping"] = 3,
    gamma: Annotated[float, "discount of later rewards, 0 to 1"] = 0.99,
    lr: Annotated[float, "step size"] = 1e-3,
    tau: Annotated[float, "share of the way the target goes"] = 1.0,
    target_every: Annotated[int, "updates between moves of the target"] = 100,
    sync: Annotated[int, "updates between versions"] = 8,
    epsilon: Annotated[float, "share of random actions in the end"] = 0.05,
    explore: Annotated[float, "share of the run until then"] = 0.15,
    spread: Annotated[float, "how far actors differ in exploration (Ape-X: 7)"] = 0.0,
    max_grad_norm: Annotated[float | None, "longest gradient; none: no limit"] = 10.0,
    threads: Annotated[int, "threads of the learner; 0: one, or all free for large networks"] = 0,
    compile: Annotated[Switch, "compile the update; worth it on GPUs"] = "off",
) -> Workload:
    """Deep Q-learning on any environment with discrete actions.

    Actors and learner work at the same time; after ``after`` transitions each one is drawn
    ``ratio`` times on average, whoever is faster waits for the other.
    """
    exploration = Epsilon(end=epsilon, share=explore, spread=spread)
    policy = partial(
        QNetwork, hidden=hidden, dueling=dueling, epsilon=exploration, normalize=normalize
    )
    actor = RolloutActor(
        env, policy, envs, clip_rewards=clip_rewards, terminal_lives=terminal_lives
    )
    require_actions(actor.spec, "DQN", "discrete")
    require_numbers(actor, normalize)
    learner = DQN(
        lr=lr, double=double, tau=tau, target_every=target_every, sync=sync,
        max_grad_norm=max_grad_norm, threads=threads, compile=compile,
    )  # fmt: skip
    sample = pattern(replay, batch, n_step, gamma, alpha)
    return replay_workload(
        "dqn", actor, learner, sample, ratio=ratio, after=after, actors=actors, steps=steps,
        total_steps=total_steps, replay_size=replay_size,
    )  # fmt: skip
