"""What environments return, compared with what their spaces say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from artos.specs.keys import OBSERVATIONS

Path = tuple[Any, ...]
"""The keys of Dict spaces and the indices of Tuples, from the outermost in."""
Array = NDArray[Any]

_LARGEST = float(np.finfo(np.float32).max)
_SAFE = _LARGEST**2
"""A sum of squares below this comes from finite numbers that float32 can hold."""


class Mismatch(Exception):
    """An environment returned what its space does not have, or what cannot be stored, as ``key``.

    Code that knows the actor and the step raises a ``BadRow`` with these instead.
    """

    def __init__(self, key: str, why: str) -> None:
        self.key, self.why = key, why
        super().__init__(f"{key}: {why}")


class Shown:
    """Makes what was returned for the part ``key`` the array that its space says.

    Lists, tensors, and arrays of another dtype are cast if that loses nothing: any dtype will do as
    long as the space's dtype can hold the values. A number that would change is refused, and so is
    another shape.
    """

    def __init__(self, key: str, space: gym.Space[Any]) -> None:
        self.key, self.space = key, space
        self.shape: tuple[int, ...] = tuple(space.shape or ())
        # In the machine's byte order: PyTorch takes no other.
        self.dtype = np.dtype(np.dtype(space.dtype).type)
        self._counts = not self.shape and self.dtype == np.int64

    def fits(self, value: Any) -> bool:
        """Whether this can be one environment's value as it is; cheap, and False if in doubt."""
        kind = type(value)
        if kind is np.ndarray:
            return value.dtype is self.dtype and value.shape == self.shape
        return self._counts and (kind is np.int64 or kind is int)

    def __call__(self, value: Any, rows: tuple[int, ...] = ()) -> Array:
        """``value`` as an array of shape ``(*rows, *shape)``; it may be the same array.

        Raises:
            Mismatch: it is not what the space says.
        """
        shape = rows + self.shape
        if type(value) is np.ndarray and value.dtype is self.dtype and value.shape == shape:
            return value
        given = numbers(value)
        if given is None:
            array = isinstance(value, np.ndarray)
            raise self._other(
                f"{value.dtype} {value.shape}" if array else f"a {type(value).__name__}", shape
            )
        found = f"{given.dtype} {given.shape}"
        if given.shape != shape:
            raise self._other(found, shape)
        with np.errstate(all="ignore"):
            cast = given.astype(self.dtype)
        kept = np.isfinite(cast) | ~np.isfinite(given) if self.dtype.kind == "f" else cast == given
        if not kept.all():
            raise self._other(found, shape, f" ({given[~kept].flat[0]} among them)")
        return cast

    def _other(self, found: str, shape: tuple[int, ...], among: str = "") -> Mismatch:
        return Mismatch(
            self.key,
            f"the environment returned {found}, its space says {self.dtype} {shape}{among}: "
            "return what the space says, or declare what is returned",
        )


class Stored(Shown):
    """Makes what was returned for all environments at once the rows that are stored.

    Floats must be finite, and wider ones become float32. Categories are counted from 0, whichever
    number their space begins with.
    """

    def __init__(self, key: str, space: gym.Space[Any]) -> None:
        super().__init__(key, space)
        self._floats, self._wide = self.dtype.kind == "f", self.dtype.itemsize > 4
        # The first category of each element, and their numbers, unsigned; None without categories.
        self._start: Any = None
        self._sizes: Any = None
        match space:
            case spaces.Discrete():
                self._start, self._sizes = np.int64(space.start), np.uint64(space.n)
            case spaces.MultiDiscrete():
                self._start, self._sizes = space.start, space.nvec.astype(np.uint64)
            case spaces.MultiBinary():
                self._start, self._sizes = np.int64(0), np.uint64(2)

    def __call__(self, value: Any, rows: tuple[int, ...] = ()) -> Array:
        """``value`` as rows to store, (*rows, *shape); they may be the same array.

        Raises:
            Mismatch: it is not what the space says, or not finite.
        """
        return self.rows(super().__call__(value, rows))

    def rows(self, array: Array) -> Array:
        """Rows to store of an array that is known to be as the space says."""
        if self._floats:
            require_finite(self.key, array)
            return array.astype(np.float32) if self._wide else array
        if self._sizes is None:
            return array
        counted: Array = np.subtract(array, self._start, dtype=np.int64)
        bad = counted.view(np.uint64) >= self._sizes  # negative ones are very large without a sign
        if bad.any():
            raise Mismatch(self.key, f"{first_of(array, bad)}: its space is {self.space}")
        return counted.astype(np.int8) if isinstance(self.space, spaces.MultiBinary) else counted


def first_of(array: Array, bad: Array) -> str:
    """The first of the elements (E, …) for which ``bad`` is true, for messages."""
    first = tuple(np.argwhere(bad)[0])
    place = "".join(f"[{i}]" for i in first[1:])
    return f"environment {first[0]} returned {array[first]}{place and ' at ' + place}"


def number(reward: Any) -> float:
    """A reward as a number, even if it comes as an array or a tensor of one.

    Raises:
        Mismatch: it is not one number.
    """
    array = numbers(reward)
    if array is None:
        raise Mismatch("rewards", f"the environment returned {reward!r}: return a number")
    if array.size != 1:
        raise Mismatch(
            "rewards",
            f"the environment returned {array.size} numbers, {array.dtype} {array.shape}: make one "
            "of them in a gymnasium.RewardWrapper, such as their weighted sum (LinearReward in "
            "mo_gymnasium.wrappers)",
        )
    return float(array.item())


def flag(key: str, value: Any) -> bool:
    """Whether an episode ended, even if it comes as a number, or an array or a tensor of one.

    Raises:
        Mismatch: it says neither yes nor no.
    """
    array = numbers(value)
    if array is None or array.size != 1 or array.item() != array.item():
        raise Mismatch(key, f"the environment returned {value!r}: return True or False")
    return bool(array.item())


def column(key: str, values: Any, envs: int, dtype: np.dtype[Any]) -> Array:
    """One number for each environment, as an array (E,); it may be the array that was returned.

    Raises:
        Mismatch: it is something else, or has numbers that are not finite.
    """
    array = numbers(values)
    if array is None or array.shape != (envs,):
        found = f"a {type(values).__name__}" if array is None else f"{array.dtype} {array.shape}"
        raise Mismatch(
            key, f"the environment returned {found}: return one number for each of {envs}"
        )
    made: Array = array.astype(dtype, copy=False)
    if dtype.kind == "f" or array.dtype.kind == "f":
        require_finite(key, array)
    return made


def require_finite(key: str, array: Array) -> None:
    """Refuse numbers, (E, …), that are not finite, or would not be as float32.

    Raises:
        Mismatch: there are some.
    """
    if float(np.vdot(array, array)) < _SAFE:
        return
    bad = ~(np.abs(array.astype(np.float64)) <= _LARGEST)
    if bad.any():
        raise Mismatch(key, f"{first_of(array, bad)}: repair the environment")


def numbers(value: Any) -> Array | None:
    """``value`` as an array of numbers; None if it is not made of numbers."""
    try:
        array = np.asarray(value)
    except Exception:  # ragged lists, tensors on a GPU
        return None
    return array if array.dtype.kind in "biuf" else None


# -- structure ---------------------------------------------------------------------------------


def pair_of(returned: Any) -> tuple[Any, dict[str, Any]]:
    """Observation and info, as ``reset`` returned them.

    Raises:
        Mismatch: it is not a pair of them.
    """
    if isinstance(returned, tuple) and len(returned) == 2 and isinstance(returned[1], dict):
        return returned
    raise Mismatch(
        OBSERVATIONS,
        f"reset() returned {_kind(returned)}; return (observation, info), as Gymnasium's "
        "environments do (for those of old Gym, see the package shimmy)",
    )


def five_of(returned: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
    """Observation, reward, termination, truncation and info, as ``step`` returned them.

    Raises:
        Mismatch: it is not what Gymnasium's environments return.
    """
    if isinstance(returned, tuple) and len(returned) == 5 and isinstance(returned[4], dict):
        return returned
    raise Mismatch(
        OBSERVATIONS,
        f"step() returned {_kind(returned)}; return (observation, reward, terminated, truncated, "
        "info), as Gymnasium's environments do (for those of old Gym, see the package shimmy)",
    )


def _kind(returned: Any) -> str:
    if not isinstance(returned, tuple):
        return f"a {type(returned).__name__}"
    return f"({', '.join(type(each).__name__ for each in returned)})"


def at(obs: Any, path: Path, key: str) -> Any:
    """The part of an observation at a path.

    Raises:
        Mismatch: it has no such part.
    """
    found = obs
    try:
        for name in path:
            found = found[name]
    except (LookupError, TypeError) as error:
        has = f"only {', '.join(map(str, obs))}" if isinstance(obs, Mapping) else _kind(obs)
        raise Mismatch(key, f"the environment returned {has}: return all of its space") from error
    return found


def nested(parts: Mapping[Path, Any]) -> Any:
    """Parts by path as nested dicts; just the part, if its path is empty."""
    whole: dict[Any, Any] = {}
    for path, part in parts.items():
        if not path:
            return part
        inner = whole
        for name in path[:-1]:
            inner = inner.setdefault(name, {})
        inner[path[-1]] = part
    return whole
