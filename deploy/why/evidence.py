"""What is known of a run when its bottleneck is looked for. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from statistics import fmean, median
from typing import Any

from artos.specs.members import LEARNER, actor_of
from deploy.why.charging import Charge, chain, shares
from deploy.why.history import History, Invocation, is_actor
from triggers.algorithms import BUILT_IN
from triggers.targets import parsed

_ENOUGH = 3
"""Updates from which on the first one, which begins with the start of all, is left out."""
_BUSY = 0.3
"""Share of a CPU that whoever uses it computes with, even if others are on it, too; who uses less
waits for something else."""


@dataclass(frozen=True)
class Evidence:
    """The history of a run, its settings and its table.

    ``actors`` is how many take part at the end. ``actors_cpu`` is the share of the time for which
    actors held CPUs in which they used them, None if that is not known.
    """

    history: History
    settings: Mapping[str, Any]
    table: Mapping[str, Mapping[str, Any]]
    actors: int
    envs: int = 1
    steps: int = 1
    cpus: int = 1
    actors_cpu: float | None = None
    algorithm: str = ""
    moved: float = 0.0
    """Bytes that went from machine to machine for an update."""

    @cached_property
    def learner(self) -> str:
        """The learner for whose versions actors wait."""
        found = [parsed(target).role for target in self.table if parsed(target).learns]
        learners = sorted(dict.fromkeys(found), key=lambda role: role != LEARNER)
        fire = (spec for target, spec in self.table.items() if parsed(target).samples)
        watched = [key.partition("/")[0] for spec in fire for key in _keys(spec)]
        waited_for = [role for role in watched if role in learners] or learners or [LEARNER]
        return waited_for[0]

    @property
    def updates(self) -> list[Invocation]:
        """What that learner did, oldest first."""
        return self.history.members.get(self.learner, [])

    @cached_property
    def chain(self) -> Mapping[Charge, float]:
        """What decided when the last update ended, in seconds; from the end of the first one on.

        If nothing was heard since: what decides for how long nothing was heard yet.
        """
        last = self.history.waited_for(self.learner) or next(reversed(self.updates), None)
        if last is None:
            return {}
        since = self.updates[0].end if len(self.updates) >= _ENOUGH else 0.0
        return chain(self.history, last, since)

    @cached_property
    def seconds(self) -> float:
        """The length of that chain: wall time."""
        return sum(self.chain.values())

    @cached_property
    def shares(self) -> Mapping[str, Mapping[str, float]]:
        """Where each member's time went."""
        last = self.history.waited_for(self.learner)
        return shares(self.history, last.member if last else "")

    # -- shares of the chain -------------------------------------------------------------------

    def share(self, *kinds: str) -> float:
        """The share of these kinds, of whomever."""
        return self._share(lambda charge: charge.kind in kinds)

    @property
    def learning(self) -> float:
        """The share of the learner's work."""
        return self._share(lambda charge: not is_actor(charge.member) and charge.kind in self._work)

    @property
    def sampling(self) -> float:
        """The share of the actors' work."""
        return self._share(lambda charge: is_actor(charge.member) and charge.kind in self._work)

    def sampling_of(self, member: str) -> float:
        """The share of an actor's work."""
        return self._share(lambda charge: charge.member == member and charge.kind in self._work)

    @cached_property
    def _work(self) -> frozenset[str]:
        done = (each.work for past in self.history.members.values() for each in past)
        found = [*done, *(each.work for each in self.history.under_way.values())]
        return frozenset(kind for work in found for kind in work)

    def _share(self, wanted: Any) -> float:
        whole = self.seconds
        part = sum(seconds for charge, seconds in self.chain.items() if wanted(charge))
        return part / whole if whole else 0.0

    # -- members -------------------------------------------------------------------------------

    @cached_property
    def rounds(self) -> Mapping[str, float]:
        """The mean seconds of a round of each actor that takes part, without the first one."""
        found = {}
        for member, past in self.history.members.items():
            worked = [seconds for each in past if (seconds := sum(each.work.values())) > 0]
            if worked and (rank := actor_of(member)) is not None and rank < self.actors:
                found[member] = fmean(worked[1:] or worked)
        return found

    @property
    def round(self) -> float:
        """That of the actor in the middle."""
        return median(self.rounds.values()) if self.rounds else 0.0

    @property
    def update(self) -> float:
        """The mean seconds of an update."""
        took = (each.end - each.begin - each.stalled for each in self.updates)
        worked = [seconds for seconds in took if seconds > 0]
        return fmean(worked[1:] or worked) if worked else 0.0

    def busy(self, member: str) -> float:
        """The share of the time from the first update to the last in which a member worked.

        Before, actors fill a buffer and wait for nobody.
        """
        since, until = self.updates[0].end, self.updates[-1].end
        past = self.history.members[member]
        worked = sum(max(0.0, min(each.end, until) - max(each.begin, since)) for each in past)
        return worked / (until - since) if until > since else 0.0

    @property
    def learner_cpu(self) -> float:
        """CPUs that the learner used while it updated."""
        worked = sum(each.end - each.begin for each in self.updates)
        return sum(each.cpu for each in self.updates) / worked if worked else 0.0

    @property
    def actors_compute(self) -> bool:
        """Whether actors compute most of the time that they sample, as far as that is known."""
        return self.actors_cpu is None or self.actors_cpu >= _BUSY

    @property
    def learner_computes(self) -> bool:
        """Whether the learner computes most of the time that it updates, as far as is known."""
        return not self.learner_cpu or self.learner_cpu >= _BUSY

    # -- the table -----------------------------------------------------------------------------

    @property
    def queued(self) -> float:
        """The share of the time for which the run's loop waited for a CPU: others have them."""
        seconds = self.history.ended - self.history.began
        return self.history.queued / seconds if seconds > 0 else 0.0

    def fields(self, kind: str) -> Mapping[str, Any] | None:
        """The fields of the first trigger of this type; None if the table has none."""
        for each in self.table.values():
            if str(each.get("type", "")).rpartition(":")[2] == kind:
                found: Mapping[str, Any] = each.get("fields", {})
                return found
        return None

    @property
    def in_turn(self) -> bool:
        """Whether actors and learner take turns: rows may be no version old, and are of all."""
        fields = self.fields("DataKeyTrigger") or {}
        return fields.get("max_lag") == 0 and fields.get("n") in (None, self.actors)

    @property
    def replays(self) -> bool:
        """Whether the learner draws rows from a replay buffer."""
        return self.fields("ReplayTrigger") is not None

    def number(self, name: str, otherwise: float) -> float:
        """A setting that is a number."""
        found = self.settings.get(name)
        known = isinstance(found, int | float) and not isinstance(found, bool)
        return float(found) if known else otherwise  # type: ignore[arg-type]

    def to_set(self, name: str, value: int | str, where: str = "Workload") -> str:
        """What sets it to ``value``: a flag, or an argument in a file of the user's own.

        It is "" if an algorithm of ours has no such setting: then nobody can set it.
        """
        if name in self.settings:
            return f"--set {name}={value}"
        return "" if self.algorithm in BUILT_IN else f"{name}={value} of its {where}"


def _keys(spec: Any) -> Iterator[str]:
    """The objects that a trigger watches, which may be composed of others."""
    if isinstance(spec, Mapping):
        for name, value in spec.items():
            yield from [value] if name == "key" and isinstance(value, str) else _keys(value)
    elif isinstance(spec, list | tuple):
        for each in spec:
            yield from _keys(each)


def without(share: float) -> float:
    """How many times as fast a run is without this share of its time."""
    return 1.0 / max(0.01, 1.0 - share)


def doubled(least: float) -> int:
    """The least power of two that is as large."""
    return 1 << max(0, ceil(least) - 1).bit_length()
