"""What an environment lets be set while a run goes: each has it from its next episode on."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, get_type_hints

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
from numpy.typing import NDArray

from artos.errors import Refused
from artos.specs.configuration import Changeable, Kind
from artos.specs.kinds import kind_of_value

SETTABLE = "settable"
"""In the metadata of environments: names of attributes or methods that take a number.

A ``Changeable`` in place of a name also says its range.
"""

Values = Mapping[str, Any]
Flags = NDArray[np.bool_]


class Coming:
    """Settings of environments that one process steps and resets itself.

    Each of them takes over what was wanted last just before it is reset.
    """

    def __init__(self, envs: int) -> None:
        self.wanted: list[dict[str, Any]] = [{} for _ in range(envs)]
        """What each has not taken over yet."""

    def want(self, values: Values) -> None:
        """All of them are to have these values from their next episode on."""
        for wanted in self.wanted:
            wanted.update(values)

    def begin(self, number: int, env: Any) -> None:
        """The environment of this number is about to be reset."""
        for name, value in self.wanted[number].items():
            _put(env, name, value)
        self.wanted[number].clear()


def _put(env: Any, name: str, value: Any) -> None:
    if not isinstance(env, gym.Env):  # a game, whose wrappers only pass on what is read
        found = getattr(env.unwrapped, name)
        found(value) if callable(found) else setattr(env.unwrapped, name, value)
    elif callable(found := env.get_wrapper_attr(name)):
        found(value)
    else:
        env.set_wrapper_attr(name, value)


class Setter:
    """Hands settings on to a vector environment, whoever made it.

    One of the user's own is told by ``set_attr`` as soon as it is known which environments begin
    an episode. If it resets them in the step that ends one, that is known too late: then all are
    told at once, and it is up to ``reset`` to take the value over.
    """

    def __init__(self, env: VectorEnv[Any, Any, Any]) -> None:
        mode = AutoresetMode(env.metadata["autoreset_mode"])
        self._at_once, self._env = mode is AutoresetMode.SAME_STEP, _settable(env)
        self._by_itself = hasattr(self._env, "coming")

    def want(self, values: Values) -> None:
        """All environments are to have these values from their next episode on."""
        if self._by_itself:
            self._env.coming.want(values)
        elif self._at_once:
            self.begin(np.ones(self._env.num_envs, bool), values)

    def begin(self, which: Flags, values: Values) -> None:
        """These environments, (E,), are about to be reset."""
        if not self._by_itself:
            for name, value in values.items():
                known = self._env.get_attr(name)
                now = [value if new else old for old, new in zip(known, which, strict=True)]
                self._env.set_attr(name, now)


def _settable(env: Any) -> Any:
    """The outermost part of a vector environment that settings are handed to."""
    while isinstance(env, VectorWrapper) and not hasattr(env, "set_attr"):
        env = env.env
    return env


def settable_of(name: str, env: VectorEnv[Any, Any, Any]) -> tuple[Changeable, ...]:
    """What an environment lets be set, with the types of the present values.

    Raises:
        Refused: it names something that it does not have, or that is no number; lists all.
    """
    wanted = env.metadata.get(SETTABLE, ())
    if not wanted:
        return ()
    if isinstance(wanted, str) or not isinstance(wanted, Sequence):
        raise Refused([f"environment {name}: {_LIST.format(wanted)}"])
    inner = _settable(env)
    if not (
        hasattr(inner, "coming") or (hasattr(inner, "get_attr") and hasattr(inner, "set_attr"))
    ):
        raise Refused([f"environment {name}: {_UNREACHABLE.format(type(inner).__name__)}"])
    faults, found = [], []
    for each in wanted:
        said = each if isinstance(each, Changeable) else Changeable(str(each))
        faults += [f"environment {name}: its {SETTABLE}: {fault}" for fault in said.misfits()]
        try:
            value = inner.get_attr(said.name)[0]
        except Exception as error:
            why = f"it has no such attribute ({type(error).__name__}: {error})"
            if not hasattr(inner, "coming"):  # Gymnasium's call a method there
                why += f"; {_METHOD}"
            faults.append(f"environment {name}: its {SETTABLE} names {said.name!r}: {why}")
            continue
        if callable(value) and not hasattr(inner, "coming"):
            faults.append(f"environment {name}: its {SETTABLE} names {said.name!r}: {_METHOD}")
        elif (kind := _kind(value)) is None:
            why = f"its value is {value!r}, and only numbers can be set"
            faults.append(f"environment {name}: its {SETTABLE} names {said.name!r}: {why}")
        else:
            found.append(Changeable(said.name, said.gt, said.ge, said.le, kind))
    if faults:
        raise Refused(faults)
    return tuple(found)


def _kind(value: Any) -> Kind | None:
    """The kind of a present value, or of what a method takes; None if that is no number."""
    if not callable(value):
        return kind_of_value(value)
    kinds: dict[Any, Kind] = {int: "int", bool: "bool"}
    return next((kinds.get(hint, "float") for hint in _hints(value)), "float")


def _hints(method: Callable[..., Any]) -> Iterator[Any]:
    """What the arguments of a method are said to be, as far as it says so."""
    with suppress(NameError, TypeError, ValueError):
        hints = get_type_hints(method)
        yield from (hints[name] for name in inspect.signature(method).parameters if name in hints)


_LIST = "metadata['settable'] lists names, e.g. [\"difficulty\"], and is not {!r}"
_METHOD = (
    "in a vector environment name an attribute that holds a number, not a method, which cannot be "
    "called for one environment"
)
_UNREACHABLE = (
    "its metadata says what may be set, and {} has no get_attr(name) and set_attr(name, values) to "
    "set it by: write them as SyncVectorEnv has them, or leave out metadata['settable']"
)
