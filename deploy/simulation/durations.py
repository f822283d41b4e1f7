"""How long rounds and updates take: drawn from a distribution, or from those of a recorded run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol


class Duration(Protocol):
    """Seconds that an invocation takes, each time anew."""

    def draw(self, random: Random) -> float:
        """One duration."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """One of those that were recorded, all equally likely."""

    seconds: Sequence[float]

    def draw(self, random: Random) -> float:
        """See ``Duration``."""
        return random.choice(self.seconds)


@dataclass(frozen=True, slots=True)
class Constant:
    """The same each time."""

    mean: float

    def draw(self, random: Random) -> float:
        """See ``Duration``."""
        del random
        return self.mean


@dataclass(frozen=True, slots=True)
class Exponential:
    """Without memory: many short ones, few long ones."""

    mean: float

    def draw(self, random: Random) -> float:
        """See ``Duration``."""
        return random.expovariate(1 / self.mean)


@dataclass(frozen=True, slots=True)
class LogNormal:
    """Around ``mean``; ``spread`` is the standard deviation divided by the mean."""

    mean: float
    spread: float

    def draw(self, random: Random) -> float:
        """See ``Duration``."""
        variance = math.log1p(self.spread**2)
        return random.lognormvariate(math.log(self.mean) - variance / 2, math.sqrt(variance))


@dataclass(frozen=True, slots=True)
class Uniform:
    """Between ``mean`` · (1 - ``spread``) and ``mean`` · (1 + ``spread``)."""

    mean: float
    spread: float

    def draw(self, random: Random) -> float:
        """See ``Duration``."""
        return self.mean * random.uniform(1 - self.spread, 1 + self.spread)
