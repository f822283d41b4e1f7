"""Who plays which agents of a game: patterns of their names, and the policies that these mean."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Past:
    """In place of a policy's name: a past version of this policy acts, and nobody learns of it."""

    policy: str


Player = str | Past
"""A policy by the name of its learner, or a past version of it."""


@dataclass(frozen=True)
class Casting:
    """The agents of a game, in its order, and who plays them; the first pattern that fits holds.

    With ``swap`` the players change places from game to game: in the second one each plays the
    agent before the one that it plays in the first.
    """

    names: tuple[str, ...]
    patterns: Mapping[str, Player]
    swap: bool = False

    def player(self, name: str) -> Player | None:
        """Who plays this agent; None if nobody does."""
        return next(
            (by for pattern, by in self.patterns.items() if fnmatchcase(name, pattern)), None
        )

    def played_by(self, who: Player) -> tuple[str, ...]:
        """The agents of the first game that it plays."""
        return tuple(name for name in self.names if self.player(name) == who)

    @property
    def players(self) -> tuple[Player, ...]:
        """Everyone who plays, policies that are learned first."""
        every = dict.fromkeys(self.patterns.values())
        return tuple(sorted(every, key=lambda who: isinstance(who, Past)))

    @property
    def pasts(self) -> tuple[Past, ...]:
        """The past versions among them."""
        return tuple(who for who in self.players if isinstance(who, Past))

    def places(self, who: Player, games: int) -> NDArray[np.int64]:
        """Which rows of so many games it has, game by game: each has a row for each agent."""
        by, rows = [self.player(name) for name in self.names], list[int]()
        for game in range(games):
            turn = game % len(by) if self.swap else 0
            turned = by[turn:] + by[:turn]
            rows += [game * len(by) + at for at, each in enumerate(turned) if each == who]
        return np.array(rows, np.int64)

    def faults(self, policies: Sequence[str], history: int) -> Iterator[str]:
        """What is wrong with it, where these policies are learned and so many pasts are kept."""
        if not policies:
            yield 'no policy is learned: agents={"*": "self"} has one that plays all'
            return
        given = ", ".join(f"{pattern!r}: {who!r}" for pattern, who in self.patterns.items())
        for name in self.names:
            if self.player(name) is None:
                yield (
                    f"{name} is an agent that no policy plays: name it, or a pattern that fits, "
                    f"agents={{{given}, {name!r}: POLICY}}"
                )
        for pattern, who in self.patterns.items():
            if not any(fnmatchcase(name, pattern) for name in self.names):
                names = ", ".join(self.names)
                yield f"agents has {pattern!r}, which is no agent of the game: these are {names}"
            elif not self.played_by(who):
                yield f"{who!r} plays no agent: put {pattern!r} before patterns that fit them all"
        for who in self.pasts:
            if who.policy not in policies:
                yield (
                    f"{who} is no past of a policy that plays: name one of {', '.join(policies)}, "
                    f"or have {who.policy!r} play an agent, too"
                )
            elif not history:
                yield f"{who} plays, and no past version is kept: set history, e.g. 8"
