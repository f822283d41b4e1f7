"""Which numbers a setting may have: yields what is wrong as a sentence."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import msgspec


def faults(
    name: str, value: Any, meta: msgspec.Meta, unbounded: bool, optional: bool
) -> Iterator[str]:
    """What is wrong with the value of a setting whose range is that of ``meta``.

    ``unbounded``: infinity is allowed. ``optional``: so is None, which the caller has seen to.
    """
    try:
        match meta.gt, meta.ge, meta.le:
            case None, None, None:
                return
            case 0, None, None if unbounded:
                yield from bounds(optional, **{name: value})
            case 0, None, None:
                yield from positive(**{name: value})
            case 0, None, most:
                if not 0 < value <= most:
                    yield f"{name} must be above 0 and at most {most}, not {value}"
            case _, 0, None:
                yield from not_negative(**{name: value})
            case _, least, None if least is not None:
                yield from at_least(least, **{name: value})
            case _, int() | float() as least, int() | float() as most:
                yield from within(least, most, **{name: value})
    except TypeError:
        yield f"{name} must be a number, not {value!r}"


def positive(**settings: float) -> Iterator[str]:
    """Settings above 0 and finite."""
    for name, value in settings.items():
        if not 0 < value < math.inf:
            yield f"{name} must be positive, not {value}"


def bounds(optional: bool = False, **settings: float | None) -> Iterator[str]:
    """Settings above 0 that bound something; infinity, or None if ``optional``, is no bound."""
    for name, value in settings.items():
        if not (optional if value is None else value > 0):
            yield f"{name} must be positive{' or none' * optional}, not {value}"


def not_negative(**settings: float) -> Iterator[str]:
    """Settings from 0 on, finite."""
    for name, value in settings.items():
        if not 0 <= value < math.inf:
            yield f"{name} must be finite and not negative, but is {value}"


def at_least(least: float, **settings: float) -> Iterator[str]:
    """Settings from ``least`` on, finite."""
    for name, value in settings.items():
        if not least <= value < math.inf:
            yield f"{name} must be at least {least:g}, not {value}"


def within(low: float, high: float, **settings: float) -> Iterator[str]:
    """Settings from ``low`` to ``high``."""
    for name, value in settings.items():
        if not low <= value <= high:
            yield f"{name} must be within {low:g} and {high:g}, not {value}"
