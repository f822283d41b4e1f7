"""Decides how many actors take part: by schedule, by policy or by hand. No effects."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from copy import deepcopy
from types import MappingProxyType
from typing import Any

import msgspec

from artos.errors import CannotScale, ScalingFailed
from artos.plan import Plan
from artos.scaling.actor_count import Kept, Schedule
from artos.scaling.policy import Custom, Observation, ScalingPolicy, decided


def check_number(actors: int, least: int, most: int) -> None:
    """See that a run can go on with so many actors.

    Raises:
        CannotScale: more than are registered, or too few for a trigger.
    """
    if actors > most:
        raise CannotScale(actors, least, most, f"{most} are registered")
    if actors < least:
        raise CannotScale(actors, least, most, f"its triggers wait for {least} at least")


class Scaler:
    """The number of actors from update to update, as the plan's ``scaling`` has it.

    Updates are counted from 0; the number ``at`` an update is that of the round it learns from.
    ``policy`` is the user's own where the plan names one, ``kept`` is from the run's checkpoint.
    """

    def __init__(
        self, plan: Plan, policy: ScalingPolicy | None = None, kept: Kept | None = None
    ) -> None:
        scaling = self._scaling = plan.at_work
        self._rows = plan.envs * plan.steps
        self._policy = scaling if isinstance(scaling, ScalingPolicy) else policy
        assert self._policy is not None or not isinstance(scaling, Custom)
        same = kept is not None and kept.scaling == scaling
        self.kept = kept if kept is not None and same else Kept(scaling, scaling.first)

    @property
    def exact(self) -> bool:
        """Whether the number has to hold from its update on, rather than as soon as possible."""
        return self.kept.by_hand is None and isinstance(self._scaling, Schedule)

    def set(self, actors: int) -> None:
        """Somebody decided: from here on it is ``actors``, whatever plan and metrics say."""
        self.kept = msgspec.structs.replace(self.kept, by_hand=actors)

    def at(
        self, update: int, metrics: Mapping[str, float], mean_return: float | None,
        objects: Mapping[str, Any] = MappingProxyType({}),
    ) -> int:  # fmt: skip
        """The number for an update, from what the last one reported and published; asked in order.

        Raises:
            ScalingFailed: the policy raised, or its answer is of no use.
        """
        kept = self.kept
        if kept.by_hand is not None:
            return kept.by_hand
        if isinstance(self._scaling, Schedule):
            return self._scaling.at(update)
        if self._policy is not None and update > kept.update:
            seen = Observation(update, kept.actors, self._rows, metrics, mean_return, objects)
            self.kept = self._asked(self._policy, seen)
        return self.kept.actors

    def ahead(self, update: int) -> int | None:
        """The number for the update after this one, where it is known already."""
        if self.kept.by_hand is not None or not isinstance(self._scaling, Schedule):
            return None
        return self._scaling.at(update + 1)

    def _asked(self, policy: ScalingPolicy, seen: Observation) -> Kept:
        memory = deepcopy(self.kept.memory)  # if this fails, what is kept can still be saved
        try:
            actors = decided(policy, seen, memory)
        except Exception as error:
            trace = "".join(traceback.format_exception(error))
            raise ScalingFailed(type(policy).__name__, seen.update, trace) from error
        return msgspec.structs.replace(self.kept, actors=actors, update=seen.update, memory=memory)
