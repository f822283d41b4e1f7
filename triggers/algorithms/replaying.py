"""The table of algorithms that learn from replay (paper Table 3: off-policy, asynchronous)."""

from __future__ import annotations

from functools import partial

from msgspec.structs import replace

from artos.actors.rollout import RolloutActor
from artos.buffer.samplers.patterns import Pattern, Prioritised, Sequences, Uniform
from artos.errors import Refused
from artos.learners.settings import CriticsSettings, ReplaySettings
from artos.policies.choosing import require_actions
from artos.policies.squashed import Deterministic
from artos.specs.actor_count import ActorsSetting, actors_of
from artos.specs.contracts import Learner
from artos.specs.keys import is_observation
from artos.specs.workload import Workload
from triggers import ReplayTrigger, RoundTrigger
from triggers.algorithms.defaults import require_numbers
from triggers.table import Table

_ROW = ("actions", "rewards", "terminations", "truncations")


def pattern(settings: ReplaySettings) -> Pattern:
    """How a batch of transitions is drawn."""
    batch, n_step, gamma = settings.batch, settings.n_step, settings.gamma
    if settings.replay == "prioritised":
        return Prioritised(batch, alpha=settings.alpha, n_step=n_step, gamma=gamma)
    return Uniform(batch, n_step=n_step, gamma=gamma, her=settings.her)


def replay_rows(actor: RolloutActor, sample: Pattern, ratio: float, after: int) -> Table:
    """Learner and actors at work at the same time; each transition is drawn ``ratio`` times."""
    observed = [key.name for key in actor.spec.data_keys() if is_observation(key.name)]
    keys = (*observed, *_ROW, *(key.name for key in actor.declared.state))
    return {
        "learner.update": ReplayTrigger(keys, sample, ratio=ratio, after=after),
        "actors.sample": RoundTrigger(),
    }


def replay_workload(
    name: str,
    actor: RolloutActor,
    learner: Learner,
    settings: ReplaySettings,
    ratio: float,
    sample: Pattern | None = None,
) -> Workload:
    """A workload whose blocks hold ``replay_size`` transitions in all, the newest ones.

    Each transition is drawn ``ratio`` times on average, by ``sample`` or else as ``replay`` says.

    Raises:
        Refused: goals are to be relabelled, and what is drawn is not.
    """
    drawn = sample or pattern(settings)
    if settings.her and not isinstance(drawn, Uniform):
        instead = "set her=0" if isinstance(drawn, Sequences) else "set replay=uniform, or her=0"
        raise Refused([f"her relabels single transitions that are drawn uniformly: {instead}"])
    return Workload(
        name=name,
        actor=actor,
        learner=learner,
        triggers=replay_rows(actor, drawn, ratio, settings.after),
        actors=settings.actors,
        steps=settings.steps,
        total_steps=settings.total_steps,
        capacity=rows_each(settings.replay_size, settings.actors, actor.envs),
        on_full="overwrite",
        settings={"ratio": ratio},
    )


def critics_workload(
    name: str, actor: RolloutActor, learner: Learner, settings: CriticsSettings
) -> Workload:
    """By default there is one update per environment step, and all steps are kept."""
    ratio = float(settings.batch) if settings.ratio is None else settings.ratio
    kept = min(settings.replay_size, settings.total_steps or settings.replay_size)
    return replay_workload(name, actor, learner, replace(settings, replay_size=kept), ratio)


def deterministic_workload(
    name: str, learner: Learner, settings: CriticsSettings, noise: float
) -> Workload:
    """That of a policy of continuous actions with bounds, explored by noise of that deviation."""
    s = settings
    policy = partial(
        Deterministic, hidden=s.hidden, noise=noise, random=s.after, normalize=s.normalize
    )
    actor = RolloutActor(s.env, policy, s.envs)
    require_actions(actor.spec, name.upper(), "box")
    require_numbers(actor, s.normalize)
    return critics_workload(name, actor, learner, settings)


def rows_each(replay_size: int, actors: ActorsSetting, envs: int) -> int:
    """Rows of each actor's block, so that all together hold ``replay_size`` transitions."""
    return max(1, -(-replay_size // (actors_of(actors).most * max(1, envs))))
