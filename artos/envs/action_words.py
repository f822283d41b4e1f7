"""Actions in another form: which of Gymnasium's wrappers makes them what an algorithm can choose.

Each hint ends in a call that can be copied, with ``env`` as the environment that is wrapped.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

if TYPE_CHECKING:
    from artos.envs.spec import ActionSpec

_MOST = 1000
"""One action has at most this many choices."""

_LONG, _MANY = 120, 16
_CHOICES = (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)


def unfit(space: gym.Space[Any]) -> str:
    """What to do about an action space that ARTOS has no form for."""
    said = str(space)
    said = said if len(said) <= _LONG else f"{said[:_LONG]} ..."
    if isinstance(space, spaces.Tuple | spaces.Dict):
        instead = _together(space)
    elif isinstance(space, spaces.Box) and space.dtype.kind in "iu":
        sizes = space.high.astype(object) - space.low + 1
        if sizes.size <= _MANY and max(sizes.flat) <= _MOST:
            start = space.low.astype(np.int64).tolist()
            instead = "take a MultiDiscrete: " + _wrapped(
                "lambda a: a.astype(env.action_space.dtype)",
                f"gymnasium.spaces.MultiDiscrete({sizes.tolist()}, start={start})",
            )
        else:
            low = max(int(space.low.max()), -_MOST)
            high = min(int(space.high.min()), low + 2 * _MOST)
            instead = "take floats within bounds that make sense, and round them: " + _wrapped(
                "lambda a: np.rint(a).astype(env.action_space.dtype)",
                f"gymnasium.spaces.Box({low}, {high}, {space.shape})",
            )
    else:
        instead = (
            "let gymnasium.wrappers.TransformAction take a Discrete, a MultiDiscrete, a "
            "MultiBinary, or a Box of floats"
        )
    return f"actions are {said}: {instead}"


def _together(space: spaces.Tuple[Any] | spaces.Dict) -> str:
    """One space instead of several: of choices, or of numbers, but not of both."""
    inside = list(space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces)
    if all(isinstance(each, spaces.Discrete) for each in inside):
        sizes, starts = ([int(getattr(d, name)) for d in inside] for name in ("n", "start"))
        names = [*space.spaces] if isinstance(space, spaces.Dict) else None
        to_env = "tuple" if names is None else f"lambda a: dict(zip({names}, a))"
        start = f", start={starts}" if any(starts) else ""
        return "take one MultiDiscrete: " + _wrapped(
            to_env, f"gymnasium.spaces.MultiDiscrete({sizes}{start})"
        )
    kinds = set()
    for each in _inner(space):
        if isinstance(each, spaces.Box) and each.dtype.kind == "f":
            kinds.add("numbers")
        else:
            kinds.add("choices" if isinstance(each, _CHOICES) else "others")
    if kinds == {"numbers"}:
        return "take one Box: " + _wrapped(
            "lambda a: gymnasium.spaces.unflatten(env.action_space, a)",
            "gymnasium.spaces.flatten_space(env.action_space)",
        )
    if kinds == {"choices"}:
        return (
            "let gymnasium.wrappers.TransformAction take one MultiDiscrete with a number for each "
            "choice"
        )
    return (
        "no algorithm here chooses numbers and choices together: let a "
        "gymnasium.wrappers.TransformAction take one MultiDiscrete, with a few values of each "
        "number to choose from, or one Box, whose numbers it makes choices of"
    )


def _inner(space: gym.Space[Any]) -> list[gym.Space[Any]]:
    if isinstance(space, spaces.Tuple | spaces.Dict):
        each = space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces
        return [leaf for part in each for leaf in _inner(part)]
    return [space]


def one_choice(actions: ActionSpec) -> str:
    """How to make one choice of several; empty if there are too many combinations."""
    count = math.prod(actions.sizes)
    if count > _MOST:
        return ""
    start = ""
    if actions.start:
        start = f" + {np.array(actions.start).reshape(actions.shape).tolist()}"
    return f"make one choice of their {count} combinations: " + _wrapped(
        f"lambda a: np.reshape(np.unravel_index(a, {actions.sizes}), {actions.shape}){start}",
        f"gymnasium.spaces.Discrete({count})",
    )


def few_values(actions: ActionSpec) -> str:
    """How to make one choice of bounded numbers; empty if they have no bounds."""
    if None in (*actions.low, *actions.high):
        return ""
    return (
        "make one choice of a few values of each number: "
        "gymnasium.wrappers.DiscretizeAction(env, bins=5)"
    )


def bounds(actions: ActionSpec) -> str:
    """How to give numbers bounds."""
    return (
        "give them bounds: "
        + _wrapped("lambda a: a", f"gymnasium.spaces.Box(-1, 1, {actions.shape})")
        + " (gymnasium.wrappers.ClipAction takes bounds away: leave it out, ARTOS clips actions)"
    )


def _wrapped(to_env: str, space: str) -> str:
    return f"gymnasium.wrappers.TransformAction(env, {to_env}, {space})"
