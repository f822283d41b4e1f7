"""What a workload declares: data and object keys, and the names that every process knows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from numbers import Integral
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

OnFull = Literal["wait", "overwrite"]
CheckpointSetting = Literal["model", "all"]

VERSION_KEY = "policy_version"
"""Implied data key: the policy version that produced a row."""

OTHER_VERSIONS = f"{VERSION_KEY}."
"""Begins data keys: the version of another learner that a row was made by, ``policy_version.NAME``,
where actors read what that learner publishes."""

AGES_KEY = "ages"
"""Data key (uint8, per environment): steps since the episode's first observation, at most 255."""

CONFIGURATION_KEY = "configuration"
"""Data key (int32, per environment) where environments can be set: the number of the run's
configuration in which the episode began."""

VALID_KEY = "valid"
"""Data key (bool, per environment): false on a row that holds an episode's final observation and is
no transition: its action only resets."""

ENDS = ("terminations", "truncations")
"""Data keys (bool, per environment): whether an episode ends with a row."""

OBSERVATIONS = "observations"
"""Data key of the observation; a Dict space has one key per part, ``observations.PART``."""
EVALUATION = "evaluator.play"
"""Target of a trigger table: the newest version of the weights is to be evaluated."""
ANSWER = "answer"
"""The method of a server that a table fires: ``"NAME.answer": RequestTrigger()``."""
MASK_KEY = f"{OBSERVATIONS}.action_mask"
"""Data key (bool, per environment, (choices,)): which discrete actions may be chosen."""

ACHIEVED_KEY, DESIRED_KEY = f"{OBSERVATIONS}.achieved_goal", f"{OBSERVATIONS}.desired_goal"
"""Data keys (per environment) of environments with goals: what is reached, and what is wanted."""

MODEL_PARAM = "model_param"
"""The object that every workload has: the policy's weights."""
VALUE = "value"
"""Name of the one array of every other object."""
PARAMS = "params"
"""Name of the array of the weights themselves, in a version of them."""
READS = "reads."
"""Begins the names of a version's arrays that are objects which actors read."""


def full_name(name: str, first: str) -> str:
    """``ROLE/OBJECT``: an object of the ``first`` learner may be named without its role."""
    return name if "/" in name else f"{first}/{name}"


def objects_of(names: Iterable[str], learner: str, first: str) -> list[str]:
    """Those of the ``names`` that mean objects of this learner, by the names that it has for them.

    ``temperature`` is one of the ``first`` learner's, ``world_model/loss`` one of that learner's.
    """
    parts = (full_name(name, first).split("/", 1) for name in names)
    return [name for role, name in parts if role == learner]


def read_learners(names: Iterable[str], first: str) -> tuple[str, ...]:
    """The learners beside the first of which something is read, in order."""
    roles = (full_name(name, first).partition("/")[0] for name in names)
    return tuple(dict.fromkeys(role for role in roles if role != first))


EPISODES = "episodes_ended"
"""How many episodes have ended: a number that the run makes known to triggers, as an object."""
_MEAN_RETURN = re.compile(r"mean_return_([1-9]\d{0,5})")


def episodes_of(name: str) -> int:
    """Of how many last episodes this is the mean return, ``mean_return_100``; 0 if of none.

    The run makes it known to triggers, as an object.
    """
    found = _MEAN_RETURN.fullmatch(name)
    return int(found[1]) if found else 0


def read_as(array: str, learner: str) -> str:
    """What a public array of a learner's version is called where it lies beside other weights."""
    return f"{READS}{learner}/{MODEL_PARAM}" if array == PARAMS else array


def noted_versions(arrays: Mapping[str, NDArray[Any]]) -> dict[str, int]:
    """The versions of other learners that lie beside weights with which they were played."""
    front = OTHER_VERSIONS
    return {n.removeprefix(front): int(a) for n, a in arrays.items() if n.startswith(front)}


def is_observation(key: str) -> bool:
    """Whether a data key holds an observation, or a part of it."""
    return key.partition(".")[0] == OBSERVATIONS


Padding = Literal["zero", "first"]
"""What a stack holds before an episode's first frame: zeros, or that frame again. It must be what
the environment showed the actor: ``AtariVectorEnv`` of ale-py shows zeros, Gymnasium's
``FrameStackObservation`` the first frame unless told otherwise."""


class DataKey(msgspec.Struct, frozen=True):
    """One kind of experience, kept in one consecutive cyclic array per actor (paper §4.2).

    ``shape`` and ``dtype`` describe one environment's value in one step, so an actor with ``envs``
    environments stores rows of ``(envs, *shape)``; with ``per_env=False`` a row is just ``shape``.
    With ``stack=k`` the value read is ``(k, *shape)`` while only the newest frame of each stack is
    stored; the key ``ages`` (steps since the episode began) says where a stack must not look back,
    and ``padding`` what it holds instead.
    """

    name: str
    shape: tuple[int, ...] = ()
    dtype: str = "float32"
    stack: int = 1
    per_env: bool = True
    padding: Padding = "zero"

    def row_shape(self, envs: int) -> tuple[int, ...]:
        """Shape of one stored row of an actor that steps ``envs`` environments."""
        return (envs, *self.shape) if self.per_env else self.shape

    def row_bytes(self, envs: int) -> int:
        """Bytes of one stored row."""
        return int(np.dtype(self.dtype).itemsize * np.prod(self.row_shape(envs), dtype=np.int64))

    def faults(self) -> list[str]:
        """Everything wrong with this declaration, for people."""
        what = f"data key {self.name!r}"
        found = [*_array_faults(what, self.shape, self.dtype)]
        if not isinstance(self.stack, Integral):
            found.append(f"{what}: stack must be a whole number, not {self.stack!r}")
        elif self.stack < 1:
            found.append(f"{what}: stack must be at least 1, not {self.stack}")
        if self.name.startswith(OTHER_VERSIONS):
            found.append(f"{what}: ARTOS writes it where actors read what a learner publishes")
        return found


class ObjectKey(msgspec.Struct, frozen=True):
    """A model-related object in the model data block, e.g. ``model_param`` (paper §4.2).

    ``model_param`` holds the weights; every other object is one array of ``shape`` and ``dtype``,
    declared by the learner that publishes it.
    """

    name: str
    shape: tuple[int, ...] = ()
    dtype: str = "float64"

    def faults(self) -> list[str]:
        """Everything wrong with this object as one that a learner publishes."""
        found = []
        if self.name == MODEL_PARAM:
            found.append(f"object {self.name!r} is the weights, which every learner publishes")
        if "/" in self.name:
            found.append(f"object {self.name!r}: leave out the /, which follows a learner's name")
        return [*found, *_array_faults(f"object {self.name!r}", self.shape, self.dtype)]


def _array_faults(what: str, shape: tuple[int, ...], dtype: str) -> Iterator[str]:
    if not (isinstance(shape, tuple | list) and all(isinstance(n, Integral) for n in shape)):
        yield f"{what}: shape must be whole numbers, as (8,), not {shape!r}"
    elif any(side <= 0 for side in shape):
        yield f"{what}: shape {shape} has a size that is not positive"
    try:
        plain = np.dtype(dtype).kind in "biuf"
    except TypeError:
        plain = False
    if not plain:
        yield (
            f"{what}: dtype {dtype!r} cannot be stored in shared memory; use bool, "
            "int8..int64, uint8..uint64 or float16..float64"
        )


class ArraySpec(msgspec.Struct, frozen=True):
    """Name, shape and dtype of one array of an object."""

    name: str
    shape: tuple[int, ...]
    dtype: str = "float32"

    @property
    def nbytes(self) -> int:
        """Bytes of the array."""
        return int(np.dtype(self.dtype).itemsize * np.prod(self.shape, dtype=np.int64))


def poison(array: NDArray[Any]) -> None:
    """Fill with a value no one writes by accident: NaN for floats, 0xA5 bytes for integers."""
    if array.dtype.kind == "f":
        array.fill(np.nan)
    elif array.dtype.kind == "b":
        array.fill(True)
    else:
        array.fill(
            int.from_bytes(b"\xa5" * array.itemsize, "little", signed=array.dtype.kind == "i")
        )
