"""Decides how many actors take part: by schedule, by policy or by hand. No effects."""

from __future__ import annotations

from collections.abc import Mapping

from artos.plan import Plan
from artos.scaling import NoiseScale, ReturnPlateau, Schedule

NOISE_SCALE = "noise_scale"
"""The learner's metric that ``NoiseScale`` goes by, in rows."""


class Scaler:
    """The number of actors from update to update, as the plan's ``scaling`` has it (leap 11).

    Updates are counted from 0; the number ``at`` an update is that of the round it learns from.
    """

    def __init__(self, plan: Plan) -> None:
        self._scaling, self._each = plan.at_work, plan.envs * plan.steps
        self._now = self._scaling.first
        self._by_hand: int | None = None
        self._best: float | None = None
        self._since: int | None = None

    @property
    def exact(self) -> bool:
        """Whether the number has to hold from its update on, rather than as soon as possible."""
        return self._by_hand is None and isinstance(self._scaling, Schedule)

    def set(self, actors: int) -> None:
        """Somebody decided: from here on it is ``actors``, whatever plan and metrics say."""
        self._by_hand = actors

    def at(self, update: int, metrics: Mapping[str, float], mean_return: float | None) -> int:
        """The number for an update, from what the last one reported; asked in order."""
        if self._by_hand is not None:
            return self._by_hand
        match self._scaling:
            case Schedule():
                self._now = self._scaling.at(update)
            case NoiseScale():
                self._now = self._by_noise(self._scaling, update, metrics.get(NOISE_SCALE))
            case ReturnPlateau():
                self._now = self._by_return(self._scaling, update, mean_return)
        return self._now

    def ahead(self, update: int) -> int | None:
        """The number for the update after this one, where it is known already."""
        if self._by_hand is not None or not isinstance(self._scaling, Schedule):
            return None
        return self._scaling.at(update + 1)

    def _by_noise(self, policy: NoiseScale, update: int, scale: float | None) -> int:
        if scale is None or update % policy.every:
            return self._now
        wanted = max(policy.least, min(policy.most, round(policy.share * scale / self._each)))
        return wanted if abs(wanted - self._now) > policy.band * self._now else self._now

    def _by_return(self, policy: ReturnPlateau, update: int, mean_return: float | None) -> int:
        if mean_return is None:
            return self._now
        if self._since is None or self._rose(policy, mean_return):
            self._best, self._since = mean_return, update
        elif update - self._since >= policy.window:
            self._since = update
            return min(policy.most, self._now + policy.step)
        return self._now

    def _rose(self, policy: ReturnPlateau, mean_return: float) -> bool:
        return self._best is None or mean_return > self._best + policy.gain * abs(self._best)
