"""How many actors take part in a run, and when that changes: plain data of a plan."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import msgspec

from artos.errors import Refused
from artos.scaling.policy import Custom, Observation, ScalingPolicy, range_faults
from artos.specs.counts import count
from artos.specs.fields import Few, Some, Version

MOST_ACTORS = 2**16
"""The most actors of a run, since every actor costs something."""

NOISE_SCALE = "noise_scale"
"""The learner's object that ``NoiseScale`` reads, in rows."""


class Manual(msgspec.Struct, frozen=True, tag="by_hand"):
    """``first`` actors, of ``most`` registered, until ``artos scale`` changes that."""

    first: int
    most: int

    @property
    def least(self) -> int:
        """The smallest number of actors meant to take part."""
        return self.first

    def numbers(self) -> tuple[int, ...]:
        """Every number of actors there may be."""
        return tuple(range(self.first, self.most + 1))

    def words(self) -> str:
        """What changes the number, for people; empty if nothing does."""
        return f"{self.first} actors until `artos scale` is used" if self.most > self.first else ""

    def faults(self) -> list[str]:
        """Everything wrong with it."""
        if self.first == self.most < 1:  # a run may have none, if it has data
            return [f"actors must be at least 1, not {self.first}"] if self.first else []
        return range_faults("actors", self.first, self.most)


class Schedule(msgspec.Struct, frozen=True, tag="schedule"):
    """Numbers of actors by update: ``Schedule({0: 4, 5: 8, 10: 12})``."""

    changes: dict[int, int]
    """From which update on there are how many; update 0 learns from rows of version 0."""

    @property
    def first(self) -> int:
        """The number at the start."""
        return self.at(0)

    @property
    def least(self) -> int:
        """The smallest number."""
        return min(self.changes.values())

    @property
    def most(self) -> int:
        """The largest number, which is how many are registered."""
        return max(self.changes.values())

    def numbers(self) -> tuple[int, ...]:
        """Every number of actors there will be."""
        return tuple(sorted(set(self.changes.values())))

    def at(self, update: int) -> int:
        """The number in the round of an update (counted from 0)."""
        return self.changes[max(start for start in self.changes if start <= update)]

    def words(self) -> str:
        """What changes the number, for people."""
        later = [f"{n} from update {u} on" for u, n in sorted(self.changes.items()) if u]
        return ", ".join([f"{self.first} actors", *later])

    def faults(self) -> list[str]:
        """Everything wrong with it."""
        found = [
            f"actors must be at least 1, not {number} from update {update} on"
            for update, number in self.changes.items()
            if number < 1
        ]
        if min(self.changes, default=-1) != 0:
            found.append("a schedule of actors begins with update 0, as in 0:4,5:8,10:12")
        return found


class NoiseScale(ScalingPolicy, msgspec.Struct, frozen=True, tag="noise_scale"):
    """As many actors as make batches as large as the gradient noise scale (McCandlish et al. 2018).

    Below that many rows a larger batch saves as many updates as it costs rows; above it, rows are
    wasted. The learner publishes the scale as the object ``noise_scale`` (rows); ``PPO`` does so
    if this policy is used.
    """

    objects: ClassVar[tuple[str, ...]] = (NOISE_SCALE,)
    least: int
    most: int
    share: float = 1.0
    """How many times as many rows as the scale a batch should hold."""
    every: int = 5
    """How many updates pass between two decisions."""
    band: float = 0.2
    """It changes if it is off by more than this share of itself."""

    def decide(self, seen: Observation, memory: dict[str, Any]) -> int:
        """The number that the scale asks for, every few updates; ``memory`` is not used."""
        del memory
        scale = seen.objects.get(NOISE_SCALE)
        if scale is None or seen.update % self.every:
            return seen.actors
        wanted = max(self.least, min(self.most, round(self.share * scale / seen.rows)))
        return wanted if abs(wanted - seen.actors) > self.band * seen.actors else seen.actors

    def words(self) -> str:
        """What changes the number, for people."""
        return f"batches of {self.share:g} x the gradient noise scale, every {self.every} updates"

    def faults(self) -> list[str]:
        """Everything wrong with it."""
        positive = {"share": self.share, "every": self.every}
        found = range_faults("noise_scale", self.least, self.most)
        found += [
            f"noise_scale: {n} must be positive, not {v}" for n, v in positive.items() if v <= 0
        ]
        if self.band < 0:
            found.append(f"noise_scale: band must not be negative, but is {self.band}")
        return found


class ReturnPlateau(ScalingPolicy, msgspec.Struct, frozen=True, tag="plateau"):
    """``step`` more actors whenever the mean return has stopped rising."""

    least: int
    most: int
    step: int = 2
    window: int = 20
    """It has stopped if it did not exceed its previous best for this many updates."""
    gain: float = 0.05
    """The share of its best by which it must exceed it."""

    def decide(self, seen: Observation, memory: dict[str, Any]) -> int:
        """The number by the mean return.

        In ``memory``, ``best`` is the return to exceed, ``since`` the update that began the window.
        """
        mean = seen.mean_return
        if mean is None:
            return seen.actors
        if not memory or mean > memory["best"] + self.gain * abs(memory["best"]):
            memory |= {"best": mean, "since": seen.update}
        elif seen.update - memory["since"] >= self.window:
            memory["since"] = seen.update
            return min(self.most, seen.actors + self.step)
        return seen.actors

    def numbers(self) -> tuple[int, ...]:
        """Every number of actors there may be."""
        return (*range(self.least, self.most, max(1, self.step)), self.most)

    def words(self) -> str:
        """What changes the number, for people."""
        return (
            f"{self.first} actors, {self.step} more when the mean return has not risen by "
            f"{self.gain:.0%} in {self.window} updates"
        )

    def faults(self) -> list[str]:
        """Everything wrong with it."""
        positive = {"step": self.step, "window": self.window}
        found = range_faults("plateau", self.least, self.most)
        found += [f"plateau: {n} must be at least 1, not {v}" for n, v in positive.items() if v < 1]
        if self.gain < 0:
            found.append(f"plateau: gain must not be negative, but is {self.gain}")
        return found


Actors = Manual | Schedule | NoiseScale | ReturnPlateau | Custom
"""How many actors: ``first`` at the start, never more than the ``most`` that are registered."""

ActorsSetting = int | str | Mapping[int, int] | Actors | ScalingPolicy
"""What ``actors=`` may be: a number, a schedule by update, a policy, or text for one of ours."""

_POLICIES: dict[str, Callable[[int, int], Actors]] = {
    "noise_scale": NoiseScale,
    "plateau": ReturnPlateau,
}
_BOUNDS = re.compile(r"(?:(\w+):)?([^:,]+)\.\.([^:,]+)")
_FORMS = (
    "write a number (4), a schedule by update (0:4,5:8,10:12), a policy with its bounds "
    f"({', '.join(f'{name}:2..16' for name in _POLICIES)}), or bounds to scale by hand (4..16)"
)


def parse_actors(text: str) -> Actors:
    """What ``--actors TEXT`` means: ``4``, ``0:4,5:8``, ``noise_scale:2..16``, ``4..16``.

    Raises:
        Refused: ``text`` is none of these, or its numbers make no sense; lists all faults.
    """
    try:
        return _checked(_parsed(text.strip()))
    except ValueError:
        raise Refused([f"actors={text!r}: {_FORMS}"]) from None


def _parsed(text: str) -> Actors:
    if bounds := _BOUNDS.fullmatch(text):
        name, least, most = bounds.groups()
        if name is None:
            return Manual(count(least), count(most))
        if name not in _POLICIES:
            raise Refused([f"actors={text!r}: no policy {name!r} (have {', '.join(_POLICIES)})"])
        return _POLICIES[name](count(least), count(most))
    if ":" in text:
        pairs = [part.split(":") for part in text.split(",")]
        changes = {count(update): count(number) for update, number in pairs}
        if len(changes) < len(pairs):
            raise Refused([f"actors={text!r}: names an update twice"])
        return Schedule(changes)
    return Manual(count(text), count(text))


def actors_of(setting: Any) -> Actors:
    """What ``actors=setting`` means, in every form that it may have.

    Raises:
        Refused: ``setting`` has none of these forms, or its numbers make no sense; lists all
            faults.
    """
    match setting:
        case Manual() | Schedule() | Custom():
            return _checked(setting)
        case NoiseScale() | ReturnPlateau() if type(setting) in _POLICIES.values():
            return _checked(setting)
        case ScalingPolicy():
            return Custom.of(setting)
        case str():
            return parse_actors(setting)
        case int() if not isinstance(setting, bool):
            return _checked(Manual(setting, setting))
        case Mapping():
            return parse_actors(",".join(f"{u}:{n}" for u, n in setting.items()))
    raise Refused([f"actors={setting!r}: {_FORMS}"])


def _checked(actors: Actors) -> Actors:
    found = actors.faults()
    if not found and actors.most > MOST_ACTORS:
        found = [f"actors must be at most {MOST_ACTORS}, not {actors.most}"]
    if found:
        raise Refused(found)
    return actors


class Kept(msgspec.Struct, frozen=True):
    """What a checkpoint keeps of the decisions so far; only valid for the same ``scaling``."""

    scaling: Actors
    actors: Few
    """The number that was decided last."""
    update: Version = -1
    """For which update it was decided."""
    memory: dict[str, Any] = {}
    """The policy's own."""
    by_hand: Some | None = None
    """The number that ``artos scale`` has set instead."""
