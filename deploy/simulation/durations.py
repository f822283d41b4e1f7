"""How long rounds and updates take: drawn from a distribution, or from those of a recorded run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol


class Duration(Protocol):
    """Seconds that an invocation takes, drawn again each time."""

    def draw(self, random: Random) -> float:
        """One duration."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """One of those that were recorded, all equally likely."""

    seconds: Sequence[float]

    def draw(self, random: Random) -> float:
        """Pick one of them."""
        return random.choice(self.seconds)


@dataclass(frozen=True, slots=True)
class Constant:
    """The same each time."""

    mean: float

    def draw(self, random: Random) -> float:
        """Return the mean."""
        del random
        return self.mean


@dataclass(frozen=True, slots=True)
class Exponential:
    """Without memory: many short ones, few long ones."""

    mean: float

    def draw(self, random: Random) -> float:
        """Draw one; its rate is 1 divided by the mean."""
        return random.expovariate(1 / self.mean)


@dataclass(frozen=True, slots=True)
class LogNormal:
    """Around ``mean``; ``spread`` is the standard deviation divided by the mean."""

    mean: float
    spread: float

    def draw(self, random: Random) -> float:
        """Draw one, by the mean and the deviation of its logarithm."""
        variance = math.log1p(self.spread**2)
        return random.lognormvariate(math.log(self.mean) - variance / 2, math.sqrt(variance))


@dataclass(frozen=True, slots=True)
class Uniform:
    """Between ``mean`` · (1 - ``spread``) and ``mean`` · (1 + ``spread``)."""

    mean: float
    spread: float

    def draw(self, random: Random) -> float:
        """Draw one, each within the bounds equally likely."""
        return self.mean * random.uniform(1 - self.spread, 1 + self.spread)
