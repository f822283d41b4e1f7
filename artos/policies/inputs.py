"""How the built-in networks take each part of an observation."""

from __future__ import annotations

import math
from typing import NamedTuple

from torch import Tensor

from artos.envs.spec import EnvSpec, Part

_SMALLEST_SIDE = 36
_MANY = 10_000
_FAR = 100
_EXACT = 2**24
"""Whole numbers up to here are all different in float32."""
_BYTE, _HALF_A_BYTE = 255.0, 127


def is_bytes(part: Part) -> bool:
    """Whether a part's numbers are bytes: uint8, and what it may show needs all eight bits.

    Bounds of 0 and 1 are flags and those of 0 and 10 counts, whatever the dtype.
    """
    return part.dtype == "uint8" and (part.high is None or part.high > _HALF_A_BYTE)


def divisor(part: Part) -> float:
    """What the numbers of a part are divided by before a network sees them.

    It is 255 for bytes, and for pictures whose floats have the bounds of bytes. All other numbers
    are taken as they are, in every dtype.
    """
    as_bytes = is_bytes(part) or (part.high == _BYTE and picture(part) is not None)
    return _BYTE if as_bytes else 1.0


def flat_width(part: Part) -> int:
    """How many features a part has when flattened: its elements or, one-hot, its categories."""
    return sum(part.sizes) if part.sizes else math.prod(part.value_shape)


def is_number(part: Part) -> bool:
    """Whether a part is made of numbers, which can be scaled; categories are not."""
    return not part.sizes


def can_be_scaled(spec: EnvSpec, *, cnn: bool = True) -> bool:
    """Whether an observation has numbers that running statistics can scale.

    They do not scale pictures that a CNN takes.
    """
    return any(is_number(part) and not (cnn and picture(part)) for part in spec.features)


class Picture(NamedTuple):
    """How a CNN reads a part."""

    channels: int
    sides: tuple[int, int]
    """Height and width."""
    order: tuple[int, ...]
    """The axes of a value in the order of frames, colours, height, width."""

    def arranged(self, values: Tensor) -> Tensor:
        """(B, *value_shape) to (B, channels, H, W)."""
        axes = values.permute(0, *(axis + 1 for axis in self.order))
        return axes.reshape(len(values), self.channels, *self.sides)


def picture(part: Part) -> Picture | None:
    """How a CNN reads a part, or None if it is not a picture.

    A picture is made of bytes or, if it has three axes or more, of floats from 0 or -1 to 1 or from
    0 to 255; both its sides are 36 or more. Its axes are (H, W), (H, W, C) or (C, H, W), maybe
    after one for fewer than 36 frames, whose colours become channels, too. Colours are the shorter
    one of the first and the last axis.
    """
    shape = part.value_shape
    axes, channels = list(range(len(shape))), []
    if not (_shows_light(part) and 2 <= len(shape) <= 4 and all(shape)):
        return None
    if len(axes) == 4:
        channels.append(axes.pop(0))
        if shape[0] >= _SMALLEST_SIDE:
            return None
    if len(axes) == 3:
        channels.append(axes.pop(0 if shape[axes[0]] <= shape[axes[-1]] else -1))
    height, width = (shape[axis] for axis in axes)
    if min(height, width) < _SMALLEST_SIDE:
        return None
    count = math.prod(shape[axis] for axis in channels)
    return Picture(count, (height, width), (*channels, *axes))


def _shows_light(part: Part) -> bool:
    if part.sizes or is_bytes(part):
        return not part.sizes
    light = (part.low, part.high) in ((0, 1), (-1, 1), (0, _BYTE))
    return part.dtype.startswith("float") and len(part.value_shape) > 2 and light


def words(part: Part, *, cnn: bool, scaled: bool) -> str:
    """Which network takes a part, and how.

    ``cnn`` is whether there is one for pictures, ``scaled`` whether statistics scale numbers.
    """
    divided = ", divided by 255" * (divisor(part) != 1)
    if cnn and (seen := picture(part)):
        height, width = seen.sides
        channels = f"{seen.channels} channel{'s' * (seen.channels != 1)}"
        return f"CNN, {channels} of {height} x {width}{divided}"
    inputs = f"{flat_width(part)} input{'s' * (flat_width(part) != 1)}"
    if part.sizes:
        return f"one-hot, {inputs}"
    return f"flat, {inputs}{divided}{', scaled by running statistics' * scaled}"


def doubt(part: Part, *, cnn: bool, scaled: bool) -> str:
    """What is odd about how a part is taken, and what to do; empty if nothing is.

    The arguments are those of ``words``.
    """
    if (cnn and picture(part)) or (part.sizes and flat_width(part) <= _MANY):
        return ""
    shown = f"{part.name} is {part.dtype} {part.value_shape}"
    if part.sizes:
        return (
            f"{shown} of {flat_width(part):,} categories, each of which is an input: let a wrapper "
            "show what they are made of, such as coordinates or digits"
        )
    if flat_width(part) > _MANY:
        return (
            f"{shown}: {flat_width(part):,} inputs of a perceptron, which learns little from "
            f"pictures and is large; {_what_pictures_are(part, cnn)}"
        )
    far = max(abs(part.low or 0), abs(part.high or 0))
    whole = part.dtype[:3] in ("int", "uin")
    if far > _EXACT and whole:
        return (
            f"{shown} with numbers up to {far:g}, and networks compute in float32, which rounds "
            f"whole numbers beyond {_EXACT:,}: let a wrapper subtract an offset, or say narrower "
            "bounds if they never go so far (artos check tells whether they do)"
        )
    if whole and divisor(part) == 1 and far > _FAR and not scaled:
        return (
            f"{shown} with numbers up to {far:g}, which networks take as they are: "
            "normalize=true scales them"
        )
    return ""


def _what_pictures_are(part: Part, cnn: bool) -> str:
    if picture(part) and not cnn:
        return "leave out kind='mlp' and it gets the CNN"
    return (
        "the CNN takes uint8 from 0 to 255 (or floats from 0 to 1) of shape (H, W), (H, W, C) or "
        f"(C, H, W), or up to {_SMALLEST_SIDE - 1} frames of these, with sides of "
        f"{_SMALLEST_SIDE} or more: resize or transpose it by a wrapper"
    )
