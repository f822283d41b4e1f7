"""Whether environments that are made in the same way are the same, and so may be cloned."""

from __future__ import annotations

import datetime
import enum
import random
import uuid
from collections import deque
from collections.abc import Iterator
from functools import partial
from pathlib import PurePath
from types import FunctionType, MethodType, ModuleType
from typing import Any

import gymnasium as gym
import numpy as np

_VALUES = (
    bool, int, float, complex, str, bytes, type(None), np.generic, uuid.UUID, PurePath, enum.Enum,
    datetime.date, datetime.time, set, frozenset,
)  # fmt: skip
_CODE = (type, FunctionType, MethodType, ModuleType)
_MOST = 100_000
"""Objects that are compared at most: an environment that holds more counts as different."""


def difference(one: Any, other: Any, name: str) -> str:
    """The first thing, by its path from ``name``, in which two objects differ; empty if none does.

    All that Python can see is compared: attributes, containers, arrays, generators of random
    numbers. What has neither attributes nor items (a simulator's own memory) counts as equal.
    """
    stack, seen = [(name, one, other)], dict[int, Any]()
    while stack:
        path, a, b = stack.pop()
        if a is b or id(a) in seen:
            continue
        seen[id(a)] = a  # kept, or another object might get its id
        if len(seen) > _MOST or type(a) is not type(b) or _differ(a, b):
            return path
        stack += reversed([*_inside(path, a, b)])
    return ""


def _differ(a: Any, b: Any) -> bool:
    """Whether two objects of one type differ in themselves, apart from what they hold."""
    if isinstance(a, np.ndarray) and a.dtype != object:
        return not np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")
    if isinstance(a, float | complex | np.floating):
        return not np.array_equal(a, b, equal_nan=True)
    return isinstance(a, _VALUES) and bool(a != b)


def _inside(path: str, a: Any, b: Any) -> Iterator[tuple[str, Any, Any]]:
    """What two objects of one type hold, in pairs with their paths."""
    if isinstance(a, gym.Space):
        return  # a description; its generator is seeded with each environment
    if isinstance(a, dict):
        yield f"{path}.keys()", list(a), list(b)
        yield from ((f"{path}[{key!r}]", a[key], b[key]) for key in a.keys() & b.keys())
    elif isinstance(a, list | tuple | deque):
        yield f"len({path})", len(a), len(b)
        pairs = enumerate(zip(a, b, strict=False))
        yield from ((f"{path}[{at}]", x, y) for at, (x, y) in pairs)
    elif isinstance(a, np.random.Generator):
        yield path, a.bit_generator.state, b.bit_generator.state
    elif isinstance(a, np.random.RandomState):
        yield path, a.get_state(), b.get_state()
    elif isinstance(a, random.Random):
        yield path, a.getstate(), b.getstate()
    elif isinstance(a, np.ndarray):  # of objects
        yield path, a.tolist(), b.tolist()
    elif isinstance(a, partial):
        yield path, (a.args, a.keywords), (b.args, b.keywords)
    elif not isinstance(a, (*_VALUES, *_CODE)):
        mine, theirs = _attributes(a), _attributes(b)
        yield f"vars({path})", sorted(mine), sorted(theirs)
        # Public names first: they tell the environment's author more than what follows from them.
        names = sorted(mine.keys() & theirs.keys(), key=lambda name: (name.startswith("_"), name))
        yield from ((f"{path}.{name}", mine[name], theirs[name]) for name in names)


def _attributes(a: Any) -> dict[str, Any]:
    slots = (slot for kind in type(a).__mro__ for slot in getattr(kind, "__slots__", ()))
    return {slot: getattr(a, slot) for slot in slots if hasattr(a, slot)} | getattr(
        a, "__dict__", {}
    )
