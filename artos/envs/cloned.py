"""The state of one environment in mid-episode, to be put back, or into another one of its kind."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, NamedTuple

import gymnasium as gym

from artos.errors import NotBranched
from artos.system.snapshot import NotKept, pickled, unpickled

_NOT = ("env", "spec", "ale", "_cached_spec")
"""Attributes that are links to other parts, or the same in all environments of a kind."""
_HOW = (
    "environment {} cannot be cloned ({}): give it clone_state(), which returns its state, and "
    "restore_state(state)"
)


class EnvState(NamedTuple):
    """The state of a single environment: of each wrapper, outermost first, and of the innermost."""

    wrappers: tuple[bytes, ...]
    attributes: bytes
    own: Any
    """What ``clone_state`` or the emulator returned; None if it has neither."""


def state_of(env: gym.Env[Any, Any]) -> EnvState:
    """The state of an environment.

    It has a pair of methods ``clone_state()`` and ``restore_state(state)``, or is an emulator of
    ale_py (``cloneState``), or can be pickled as it is. Wrappers can be pickled.

    Raises:
        NotBranched: it has none of these.
    """
    wrappers = []
    try:
        while isinstance(env, gym.Wrapper):
            wrappers.append(_attributes(env))
            env = env.env
        # Its own clone_state leaves out the emulator's random stream.
        if (emulator := getattr(env, "ale", None)) is not None:
            own = emulator.cloneState(include_rng=True)
            return EnvState(tuple(wrappers), _attributes(env), own)
        if (clone := _method(env, "clone_state", "restore_state")) is not None:
            return EnvState(tuple(wrappers), b"", clone())
        return EnvState(tuple(wrappers), _attributes(env), None)
    except NotKept as error:
        raise NotBranched(_HOW.format(type(env).__name__, error.why)) from error


def put_state(env: gym.Env[Any, Any], state: EnvState) -> None:
    """Have an environment, which was made in the same way, go on from a state."""
    for wrapper in state.wrappers:
        assert isinstance(env, gym.Wrapper)
        vars(env).update(unpickled(wrapper))
        env = env.env
    if state.attributes:
        vars(env).update(unpickled(state.attributes))
        if state.own is not None:
            env.ale.restoreState(state.own)  # type: ignore[attr-defined]
    elif (restore := _method(env, "restore_state", "clone_state")) is not None:
        restore(state.own)


def _attributes(part: Any) -> bytes:
    return pickled(
        {
            name: value
            for name, value in vars(part).items()
            if name not in _NOT and not isinstance(value, FunctionType)
        }
    )


def _method(env: Any, name: str, other: str) -> Callable[..., Any] | None:
    found = getattr(env, name, None)
    return found if callable(found) and callable(getattr(env, other, None)) else None
