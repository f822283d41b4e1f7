"""The state of environments, even in the middle of an episode, as far as Python can see it."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

from gymnasium.vector import VectorEnv, VectorWrapper

State = dict[str, Any]


def environment_state(env: VectorEnv[Any, Any, Any]) -> State:
    """Everything that a vector environment holds, except functions, which a new one has, too.

    It holds the environment's own objects: pickle it (``artos.system.snapshot.pickled``) before the
    next step. Simulators that are not written in Python usually cannot be pickled.
    """
    state = {name: value for name, value in vars(env).items() if not _is_code(value)}
    if isinstance(env, VectorWrapper):
        state["env"] = environment_state(env.env)
    return state


def set_environment_state(env: VectorEnv[Any, Any, Any], state: State) -> None:
    """Have ``env``, which was made in the same way, go on from a state."""
    state = dict(state)
    if isinstance(env, VectorWrapper):
        set_environment_state(env.env, state.pop("env"))
    else:
        env.close_extras()
    vars(env).update(state)


def _is_code(value: Any) -> bool:
    """Whether this is a function, or a sequence of functions that make environments."""
    functions: tuple[Callable[..., Any], ...] = (
        tuple(value) if isinstance(value, list | tuple) else (value,)
    )
    return bool(functions) and all(isinstance(each, FunctionType) for each in functions)
