"""The table of algorithms that learn from replay (paper Table 3: off-policy, asynchronous)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from artos.actors.agents import AgentsActor
from artos.actors.rollout import RolloutActor
from artos.buffer.part_of_block import stored_name
from artos.buffer.samplers.patterns import Pattern, Prioritised, Sequences, Uniform
from artos.envs.spec import ActionKind, EnvSpec
from artos.errors import Refused
from artos.learners.settings import CriticsSettings, ReplaySettings
from artos.policies.choosing import require_actions
from artos.policies.squashed import Deterministic
from artos.specs.actor_count import ActorsSetting, actors_of
from artos.specs.contracts import Learner
from artos.specs.keys import is_observation
from artos.specs.workload import Workload
from triggers import ReplayTrigger, RoundTrigger
from triggers.algorithms.defaults import asking_or_not, of_each_agent, require_numbers
from triggers.algorithms.separate import separated
from triggers.table import Table

_ROW = ("actions", "rewards", "terminations", "truncations")
_MOST_KEPT = 1_000_000
_ALONE = (
    "spread={:g} has no effect with one actor, which explores as the first of several: raise "
    "actors, or lower epsilon and set spread=0"
)
_OF_GAMES = ("clip_rewards", "terminal_lives")
"""Settings of the environment that some algorithms have."""


def pattern(settings: ReplaySettings) -> Pattern:
    """How a batch of transitions is drawn."""
    batch, n_step, gamma = settings.batch, settings.n_step, settings.gamma
    if settings.replay == "prioritised":
        return Prioritised(batch, alpha=settings.alpha, n_step=n_step, gamma=gamma)
    return Uniform(batch, n_step=n_step, gamma=gamma, her=settings.her)


def replay_actor(
    settings: ReplaySettings,
    name: str,
    kinds: Sequence[ActionKind],
    policy: Callable[[EnvSpec, int], Any],
) -> RolloutActor | AgentsActor:
    """The actor of an algorithm of this name that chooses such actions.

    ``policy`` is one for an environment of these facts, whose first update follows after so many
    steps of the run. Where ``agents`` are separate each has its own.

    Raises:
        Refused: actions are of another kind, or there is nothing to scale; separate agents, and an
            environment that is no game.
    """
    s = settings
    if s.agents == "separate":
        games = of_each_agent(s, None)
        seats = games.spec.seats
        games.policy = {each: policy(spec, s.after * len(seats)) for each, spec in seats.items()}
        for spec in seats.values():
            require_actions(spec, name, *kinds)
        return games
    given = {each: getattr(s, each) for each in _OF_GAMES if hasattr(s, each)}
    actor = asking_or_not(s, None, **given)
    require_actions(actor.spec, name, *kinds)
    require_numbers(actor.spec, s.normalize)
    actor.policy = policy(actor.spec, s.after)
    return actor


def replay_rows(
    actor: RolloutActor | AgentsActor, sample: Pattern, ratio: float, after: int
) -> Table:
    """Learner and actors at work at the same time; each transition is drawn ``ratio`` times."""
    return {
        "learner.update": ReplayTrigger(_drawn(actor), sample, ratio=ratio, after=after),
        "actors.sample": RoundTrigger(),
    }


def _drawn(actor: RolloutActor | AgentsActor) -> tuple[str, ...]:
    """The data keys that are drawn, of all policies where there are several."""
    if isinstance(actor, AgentsActor):
        return tuple(
            stored_name(name, key.name)
            for name, part in actor.parts.items()
            for key in part.keys
            if is_observation(key.name) or key.name in (*_ROW, *part.state_keys)
        )
    observed = [key.name for key in actor.spec.data_keys() if is_observation(key.name)]
    return (*observed, *_ROW, *(key.name for key in actor.declared.state))


def replay_workload(
    name: str,
    actor: RolloutActor | AgentsActor,
    learner: Learner,
    settings: ReplaySettings,
    ratio: float,
    sample: Pattern | None = None,
) -> Workload:
    """A workload whose blocks hold ``replay_size`` transitions in all, the newest ones.

    Each transition is drawn ``ratio`` times on average, by ``sample`` or else as ``replay`` says;
    where ``agents`` are separate, each by a learner of its agent.

    Raises:
        Refused: goals are to be relabelled, and what is drawn is not.
    """
    drawn = sample or pattern(settings)
    if settings.her and not isinstance(drawn, Uniform):
        instead = "set her=0" if isinstance(drawn, Sequences) else "set replay=uniform, or her=0"
        raise Refused([f"her relabels single transitions that are drawn uniformly: {instead}"])
    spread, alone = getattr(settings, "spread", 0.0), actors_of(settings.actors).most == 1
    return separated(Workload(
        name=name,
        actor=actor,
        learner=learner,
        triggers=replay_rows(actor, drawn, ratio, settings.after),
        actors=settings.actors,
        steps=settings.steps,
        total_steps=settings.total_steps,
        capacity=rows_each(settings.replay_size, settings.actors, actor.envs),
        on_full="overwrite",
        settings={"ratio": ratio, "replay_size": settings.replay_size},
        doubts=[_ALONE.format(spread)] if spread and alone else (),
    ))  # fmt: skip


def critics_workload(
    name: str, actor: RolloutActor | AgentsActor, learner: Learner, settings: CriticsSettings
) -> Workload:
    """By default there is one update per environment step, and a million steps are kept.

    These are all where the run is no longer, and actors sample as many each: blocks are alike. If
    it is resumed for longer, as many are kept as before.
    """
    ratio = float(settings.batch) if settings.ratio is None else settings.ratio
    kept = settings.replay_size
    if kept is None:
        kept = min(_MOST_KEPT, settings.total_steps or _MOST_KEPT)
    return replay_workload(name, actor, learner, replace(settings, replay_size=kept), ratio)


def deterministic_workload(
    name: str, learner: Learner, settings: CriticsSettings, noise: float
) -> Workload:
    """That of a policy of continuous actions with bounds, explored by noise of that deviation."""
    s = settings

    def policy(_: EnvSpec, first: int) -> Any:
        return partial(
            Deterministic, hidden=s.hidden, noise=noise, random=first, normalize=s.normalize
        )

    actor = replay_actor(settings, name.upper(), ("box",), policy)
    return critics_workload(name, actor, learner, settings)


def rows_each(replay_size: int, actors: ActorsSetting, envs: int) -> int:
    """Rows of each actor's block, so that all together hold ``replay_size`` transitions."""
    return max(1, -(-replay_size // (actors_of(actors).most * max(1, envs))))
