"""Wrappers of Gymnasium's that a workload names with its environment.

The argument ``wrappers`` of the address names them, the innermost first, with their arguments if
they take any: ``CartPole-v1(wrappers=['my_wrappers:Shaped', ('gymnasium.wrappers:TimeLimit',
{'max_episode_steps': 100})])``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

import gymnasium as gym

from artos.errors import Refused
from artos.specs.address import address, parted
from artos.specs.named import WRAPPERS

_CLASS = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


class Wrap(NamedTuple):
    """A wrapper: ``module:Class``, and its arguments beside the environment."""

    name: str
    arguments: Mapping[str, Any]


def wrappers_of(env: str) -> tuple[str, tuple[Wrap, ...]]:
    """The address without that argument, and the wrappers; none if it is not there.

    Raises:
        Refused: they are not named as they have to be.
    """
    name, arguments = parted(env)
    if WRAPPERS not in arguments:
        return env, ()
    found = arguments.pop(WRAPPERS)
    found = [found] if isinstance(found, str) else found
    if not found or not isinstance(found, list | tuple):
        raise Refused([_UNNAMED.format(env, WRAPPERS)])
    wraps = []
    for each in found:
        given = (each, {}) if isinstance(each, str) else each
        match given:
            case (str(named), dict(own)) if _CLASS.fullmatch(named) and all(
                isinstance(key, str) for key in own
            ):
                wraps.append(Wrap(named, own))
            case _:
                raise Refused([_UNNAMED.format(env, WRAPPERS)])
    return address(name, arguments), tuple(wraps)


def wrapped(
    env: str, made: gym.Env[Any, Any], wrappers: Sequence[Wrap], load: Callable[[str], Any]
) -> gym.Env[Any, Any]:
    """The environment within these wrappers; ``load`` finds what ``module:Class`` names.

    Raises:
        Refused: one of them is not there, fails, or makes no environment; it is closed then.
    """
    for name, arguments in wrappers:
        with ExitStack() as undo:
            undo.callback(made.close)
            try:
                found = load(name)(made, **arguments)
            except Refused:
                raise
            except Exception as error:
                why = f"{type(error).__name__}: {error}"
                raise Refused([f"environment {env}: its wrapper {name} fails: {why}"]) from error
            if not isinstance(found, gym.Env):
                what = type(found).__name__
                raise Refused([f"environment {env}: {name} made a {what}, no environment"])
            undo.pop_all()
        made = found
    return made


_UNNAMED = (
    "environment {0}: {1} is a list of module:Class, each alone or with its arguments, e.g. "
    "{1}=['my_wrappers:Shaped', ('gymnasium.wrappers:TimeLimit', {{'max_episode_steps': 100}})]"
)
