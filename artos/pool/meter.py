"""How long a seat has held its resource, in one word that says whether a lease runs, too. Pure."""

from __future__ import annotations


def in_use(meter: int) -> bool:
    """Whether a lease is running, from the ``METER`` word."""
    return bool(meter & 1)


def held_at(meter: int, now: int) -> int:
    """Nanoseconds held until ``now``, from the ``METER`` word."""
    return (meter >> 1) + (now if meter & 1 else 0)


def started(meter: int, now: int) -> int:
    """The ``METER`` word once a lease begins: one store changes state and account at once."""
    return ((held_at(meter, now) - now) << 1) | 1


def stopped(meter: int, now: int) -> int:
    """The ``METER`` word once the lease ends."""
    return held_at(meter, now) << 1
