"""What learners that draw transitions from replay have in common."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from artos.buffer.samplers.drawn_batch import DrawnBatch
from artos.buffer.samplers.transitions import DISCOUNTS, NEXT, RETURNS
from artos.learners.network import Network
from artos.learners.settings import (
    ReplaySettings,
    declared,
    out_of_range,
    settings_of_learner,
)
from artos.learners.torch_learner import TorchLearner
from artos.policies.analytic_critics import AnalyticClimb, AnalyticCritics, Policy
from artos.policies.critics import Critics
from artos.policies.encoders import Normalizer, normalizers
from artos.protocol.invocations import Invoke
from artos.specs.configuration import Changeable
from artos.system.overriding import has_own

Obs = dict[str, Tensor]
CRITIC_LR = Changeable("critic_lr", gt=0)
_NEXT = 1 << 56
"""From one seed to the next within an update; those of replicas are nearer to each other."""
_EXACT, _SIGN = 1 << 24, 1 << 31
"""Up to the first one float32 has all whole numbers; the other one is the weight of its sign."""


class OffPolicyLearner(TorchLearner):
    """Write ``learn(batch)``; each update is one call of it.

    The settings are a ``ReplaySettings``: every ``sync`` updates are a version. ``updates`` counts
    them since training began.
    """

    takes_episodes: ClassVar[bool] = False
    Settings: ClassVar[type[ReplaySettings]]
    settings: ReplaySettings
    critics: Network
    """Of those that have critics, whose step size is ``critic_lr``."""
    publishing: ClassVar[Literal["update", "step", "itself"]] = "itself"
    replicable: ClassVar[bool] = True
    noisy_rows: ClassVar[bool] = True
    """Whether it draws other numbers for each row at random than those that ``noise`` returns."""

    def __init__(self, settings: ReplaySettings | None = None, /, **given: Any) -> None:
        """With these settings, or with those given by name and defaults for the others."""
        self.settings = settings or settings_of_learner(self.Settings, given)
        lr, threads, compiled = self.settings.lr, self.settings.threads, self.settings.compile
        super().__init__(lr, None, threads, compiled)
        self.rounds_losses = self.settings.bfloat16
        known = declared(type(self.settings))
        for name in (each.name for each in self.changeable if each.name in known):
            setattr(self, name, getattr(self.settings, name))

    def setup(self, context: Any) -> None:
        """Also count the updates."""
        super().setup(context)
        self._updates, self.updates = self.own("updates", torch.zeros(1)), 0

    def change(self, name: str, value: float) -> None:
        """Go on with another value; ``critic_lr`` is also that of the critics' optimiser."""
        super().change(name, value)
        if name == CRITIC_LR.name:
            self.critics.optimiser.lr = value

    def update(self, batch: DrawnBatch, call: Invoke) -> dict[str, float]:
        """Learn from a drawn batch."""
        # What is drawn at random follows from what is saved, so that a crash changes nothing.
        seed = self._noise_seed = self.context.seed * 1_000_003 + self.updates
        if self.noisy_rows:
            seed += self.replicas.rank << 40
        self.place.seed(seed)
        self._rows = len(next(iter(batch.values())))
        metrics = self.replicas.total(self.learn(self.replicas.part(batch)))
        self.updates += 1
        if self.updates <= _EXACT:
            self._updates.values.fill_(self.updates)
        else:  # its bits, as those of a negative number, which no count is
            self._updates.values.view(torch.int32).fill_(self.updates - _SIGN)
        if self.updates % self.settings.sync == 0:
            self._count(batch)
            self.publish()
        return {name: value.item() for name, value in metrics.items()}

    def _count(self, batch: DrawnBatch) -> None:
        """Update the statistics by which observations are scaled: one for all networks."""
        if self._normalizers:
            first, *others = self._normalizers
            first.update(self.observations(batch))
            for normalizer in others:
                normalizer.copy(first)

    @cached_property
    def _normalizers(self) -> list[Normalizer]:
        """What scales observations, the policy's first; asked for once all networks are owned."""
        networks = (self.network, *self.owned.values())
        return [each for network in networks for each in normalizers(network.module)]

    def own_critics(self, hidden: Sequence[int], lr: float, count: int = 2, out: int = 1) -> None:
        """Own ``count`` critics, which scale observations if the policy does, and their targets."""
        scaled = bool(normalizers(self.module))
        critics = Critics(self.context.spec, hidden, count=count, out=out, normalize=scaled)
        self.critics = self.own("critics", critics, lr=lr)
        self.targets = self.own("targets", copy.deepcopy(critics))

    def written_down(
        self, policy: Policy | None, known: type, *others: str
    ) -> AnalyticClimb[Policy] | None:
        """How to do without autograd; None where it is needed.

        So it is if one of the losses, or of ``others``, is another one than that of ``known``.
        """
        changed = has_own(type(self), known, "_critic_loss", "_policy_loss", "step", *others)
        if changed or self.settings.bfloat16 or self.compile == "on":
            return None
        return AnalyticClimb.of(policy, self.critics.module, self.targets.module)

    def fit(
        self, critics: AnalyticCritics, obs: Obs, rows: Mapping[str, Tensor], wanted: Tensor,
        slope: float,
    ) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
        """A step of the critics on ``slope`` times half the squared errors, without autograd.

        Returns the loss before it, the errors (count, n) and the mean value.
        """
        actions = self.module.bounds.unit(rows["actions"])
        found = critics.evaluate(obs, actions)
        errors = found - wanted
        felt = slope * rows["weights"] * errors
        critics.backward(felt * (self.replicas.share / len(actions)))
        self.critics.step_written()
        return 0.5 * (felt * errors).sum(0).mean(), errors, found.mean()

    def learn(self, batch: DrawnBatch) -> Mapping[str, Tensor]:
        """One step of every network; returns metrics as scalar tensors without gradients."""
        raise NotImplementedError

    def noise(self, *shape: int) -> Tensor:
        """Standard normal numbers (n, *shape) for the n rows or windows that it learns from.

        Each has the numbers that it would have in a learner without replicas.
        """
        random = None  # that of the device, alike in all replicas
        if self.noisy_rows:
            self._noise_seed += _NEXT
            random = torch.Generator(self.place.device).manual_seed(self._noise_seed)
        found = torch.randn((self._rows, *shape), device=self.place.device, generator=random)
        return found[self.replicas.rank :: self.replicas.count]

    def restored(self) -> None:
        """Also go on counting updates."""
        super().restored()
        bits = int(self._updates.values.view(torch.int32))
        self.updates = bits + _SIGN if bits < 0 else int(self._updates.values)

    def following(self, batch: DrawnBatch) -> Obs:
        """Observations to bootstrap from."""
        return self.observations(batch, NEXT)

    def rows(self, batch: DrawnBatch) -> dict[str, Tensor]:
        """What else a loss is made of: actions, returns and discounts over n steps, weights."""
        found = {name: self.tensor(batch[name]) for name in ("actions", RETURNS, DISCOUNTS)}
        return found | {"weights": self.tensor(batch.weights)}

    def wanted(self, rows: Mapping[str, Tensor], values: Tensor) -> Tensor:
        """Returns over n steps, (n,), with the discounted ``values`` (n,) of the states after."""
        return rows[RETURNS] + rows[DISCOUNTS] * values

    def out_of_range(self) -> Iterator[str]:
        """Settings that no run could use."""
        yield from super().out_of_range()
        yield from out_of_range(self.settings)
