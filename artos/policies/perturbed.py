"""One policy for each environment, whose parameters differ by noise."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from artos.policies.acting import ActInfo, Array, BoundPolicy
from artos.policies.flat import Floats


class Perturbed:
    """Acts in environments 2i and 2i + 1 with the bound parameters plus and minus noise.

    The first ``count`` numbers of what is bound are parameters; what comes after them, such as
    statistics, stays as it is.
    """

    def __init__(self, policies: Sequence[BoundPolicy], count: int) -> None:
        self._policies, self._count = policies, count
        self._tried: Floats = np.empty((len(policies), 0), np.float32)

    def bind(self, flat: Floats) -> None:
        """Perturb these parameters from the next ``perturb`` on."""
        self._params = flat

    def perturb(self, noises: Iterable[Floats], sigma: float) -> None:
        """Act with plus and minus ``sigma`` times each of the ``noises`` (count,)."""
        if self._tried.shape[1] != len(self._params):
            self._tried = np.empty((len(self._policies), len(self._params)), np.float32)
        self._tried[:] = self._params
        for pair, noise in enumerate(noises):
            step = np.float32(sigma) * noise
            self._tried[2 * pair, : self._count] += step
            self._tried[2 * pair + 1, : self._count] -= step
        for policy, tried in zip(self._policies, self._tried, strict=True):
            policy.bind(tried)

    def act(self, obs: dict[str, Array], info: ActInfo) -> dict[str, Array]:
        """``actions`` (E, *shape), each environment's by its own parameters."""
        each = (
            policy.act({name: part[env : env + 1] for name, part in obs.items()}, info)
            for env, policy in enumerate(self._policies)
        )
        return {"actions": np.concatenate([found["actions"] for found in each])}

    def values(self, obs: dict[str, Array], info: ActInfo) -> Floats:
        """Zeros (E,): whole episodes are compared, so nothing is bootstrapped."""
        return np.zeros(len(self._policies), np.float32)
