"""What the tables of algorithms share: the actor they are for, and what fits its rows."""

from __future__ import annotations

from functools import partial
from typing import Any, TypeVar

from msgspec.structs import replace

from artos.actors.agents import AgentsActor, agents_of
from artos.actors.asking import AskingActor
from artos.actors.rollout import RolloutActor
from artos.envs.spec import EnvSpec
from artos.errors import Refused
from artos.learners.settings import (
    OPEN,
    ActorCriticSettings,
    ClippedSettings,
    ReplaySettings,
    fitted,
)
from artos.policies.build import Policy
from artos.policies.inference import Inference
from artos.policies.inputs import can_be_scaled, picture
from artos.policies.recurrent import RecurrentActorCritic
from artos.specs.actor_count import ActorsSetting, actors_of

C = TypeVar("C", bound=ClippedSettings)
_PICTURES = "normalize scales numbers, but {} shows none: leave normalize out"
_SHARED = (
    "recurrent: policy and value share the CNN of {}'s pictures, and what the value learns must "
    "not change the policy: leave recurrent out, or run ppo"
)


def actor_critic(
    settings: ActorCriticSettings, correlation: float = 0.0, *, apart: bool = False
) -> RolloutActor | AgentsActor:
    """The actor of algorithms that learn a policy and its value, with or without a memory.

    ``correlation`` is that of continuous actions' noise, from step to step. If they are ``apart``,
    nothing that the value learns changes the policy.

    Where ``agents`` are separate, each is played by a policy of its own.

    Raises:
        Refused: ``normalize``, and an observation has no numbers but pictures; ``apart``, and a
            memory sees pictures; separate agents, and central inference, or an environment that is
            no game.
    """
    shared: dict[str, Any] = {
        "hidden": settings.hidden, "normalize": settings.normalize, "correlation": correlation
    }  # fmt: skip
    policy: Any = Policy(**shared, apart=apart)
    if settings.recurrent:
        policy = partial(RecurrentActorCritic, width=settings.memory, **shared)
    given: dict[str, Any] = {
        "clip_rewards": settings.clip_rewards, "terminal_lives": settings.terminal_lives
    }  # fmt: skip
    if settings.agents == "separate":
        return of_each_agent(settings, policy)
    actor = asking_or_not(settings, policy, **given)
    require_numbers(actor.spec, settings.normalize)
    if apart and settings.recurrent and any(picture(part) for part in actor.spec.features):
        raise Refused([_SHARED.format(actor.spec.name)])
    return actor


def asking_or_not(
    settings: ActorCriticSettings | ReplaySettings, policy: Any, **given: Any
) -> RolloutActor:
    """An actor with this policy, which evaluates it as ``inference`` says."""
    s = settings
    if s.inference == "actor":
        return RolloutActor(s.env, policy, s.envs, **given)
    server = Inference(s.answer_batch, s.answer_wait, device=s.answer_device)
    return AskingActor(s.env, policy, s.envs, splits=s.splits, server=server, **given)


def of_each_agent(settings: ActorCriticSettings | ReplaySettings, policy: Any) -> AgentsActor:
    """An actor of a game in which each agent is played by a policy that is called like it.

    Raises:
        Refused: a setting that such an actor cannot have, or no game.
    """
    clip, found = getattr(settings, "clip_rewards", None), list[str]()
    if settings.inference == "central":
        found.append("one server has one policy, and agents=separate several: leave one of it out")
    if getattr(settings, "pipeline", "none") != "none":
        found.append("agents=separate hands over whole rounds: leave pipeline out, or agents")
    if getattr(settings, "terminal_lives", False):
        found.append("agents of games have no lives: leave terminal_lives out")
    if found:
        raise Refused(found)
    names = agents_of(settings.env)
    actor = AgentsActor(
        settings.env, {name: name for name in names}, policy, settings.envs, clip_rewards=clip
    )
    for spec in actor.spec.seats.values():
        require_numbers(spec, settings.normalize)
    return actor


def require_numbers(spec: EnvSpec, normalize: bool) -> None:
    """Check that there is something to scale.

    Raises:
        Refused: an observation has no numbers but pictures.
    """
    if normalize and not can_be_scaled(spec):
        raise Refused([_PICTURES.format(spec.name)])


def lag_of(actors: ActorsSetting, n: int, wanted: int | None) -> int:
    """Versions that rows may be old where updates take ``n`` rounds: as ``wanted``.

    By default every actor may have a round under way and another one that waits for the learner.
    """
    return 2 * actors_of(actors).most // max(1, n) if wanted is None else wanted


def divided(found: C, actor: RolloutActor | AgentsActor, steps: int) -> C:
    """With a number of minibatches that suits the rows of rounds, if it was left open."""
    if found.minibatches is not OPEN:
        return found
    usual = fitted(found, None).minibatches  # sequences are few, and never cut
    rows = min(part.envs for part in actor.parts.values()) if actor.parts else actor.envs
    fine = minibatches_of(rows * steps, actors_of(found.actors).least)
    return replace(found, minibatches=usual if found.recurrent else fine)


def minibatches_of(rows: int, actors: int) -> int:
    """Into how many minibatches of 64 rows or a little more an update's rows divide.

    ``rows`` are those of one actor, so that all numbers of actors from ``actors`` on will do.
    """
    most = min(rows, rows * actors // 64)
    return max((n for n in range(1, most + 1) if rows % n == 0), default=1)
