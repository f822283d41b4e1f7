"""Random streams: a seed for each purpose, and new streams for what has been drawing already."""

from __future__ import annotations

import gc
import random
import sys
from collections.abc import Iterator, Sequence
from enum import IntEnum
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, ModuleType
from typing import Any

import numpy as np

_CODE = (type, ModuleType, FunctionType, BuiltinFunctionType, CodeType, FrameType)
_LEAVES = (str, bytes, int, float, complex, bool, type(None), np.ndarray, np.generic, memoryview)


class Purpose(IntEnum):
    """What random numbers are drawn for beside environments, which have an actor's seed itself.

    ``seed_of(seed, purpose)`` is a stream for each, so that none decides another.
    """

    CONTINUATIONS = 1
    """Of episodes, as ``artos.actors.continuing`` plays them."""
    POLICY = 2
    CHOICES = 3
    """The actor's own: how groups begin, where branches go on from, which past versions play."""
    GLOBALS = 4
    """Whoever draws from the generators of the process."""


def seed_of(seed: int, *path: int) -> int:
    """A different seed for every path, e.g. (actor, incarnation); 31 bits suit every library."""
    return int(np.random.SeedSequence([seed, *path]).generate_state(1)[0] >> 1)


def own_streams(seed: int) -> None:
    """Seed the global generators, which clones have in common and user code may draw from."""
    seed = seed_of(seed, Purpose.GLOBALS)
    random.seed(seed)
    np.random.seed(seed)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed)


def streams_of(root: Any) -> list[Any]:
    """Every random generator that ``root`` holds, at any depth: of NumPy, torch and ``random``.

    Objects with a method ``renew(seed)`` are among them: they have drawn ahead, or keep a
    generator's state. Streams within simulators that are not written in Python are not.
    """
    torch = sys.modules.get("torch")
    kinds = (np.random.Generator, np.random.RandomState, random.Random)
    kinds += () if torch is None else (torch.Generator,)
    return [each for each in _held(root) if isinstance(each, kinds) or hasattr(each, "renew")]


def renew(streams: Sequence[Any], seed: int) -> None:
    """Have all ``streams_of`` an object begin anew, each with a seed of its own."""
    for number, each in enumerate(streams):
        sequence = np.random.SeedSequence([seed, number])
        own = int(sequence.generate_state(1)[0])
        if isinstance(each, np.random.Generator):
            bits = each.bit_generator
            bits.state = type(bits)(sequence).state
        elif hasattr(each, "renew"):
            each.renew(own)
        elif hasattr(each, "manual_seed"):
            each.manual_seed(own)
        else:
            each.seed(own)


def _held(root: Any) -> Iterator[Any]:
    """Everything that can be reached from an object, except code and what only code refers to."""
    seen, left = {id(root)}, [root]
    while left:
        each = left.pop()
        yield each
        for held in _referents(each):
            if id(held) not in seen:
                seen.add(id(held))
                left.append(held)


def _referents(each: Any) -> Iterator[Any]:
    for held in gc.get_referents(each):
        if isinstance(held, FunctionType):
            yield from held.__closure__ or ()
        elif not isinstance(held, _CODE + _LEAVES):
            yield held
