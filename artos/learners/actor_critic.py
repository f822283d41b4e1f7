"""What learners of a policy and its value share: settings, and rows as the network takes them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from artos.buffer.samplers.batch import Batch
from artos.learners.context import LearnerContext
from artos.learners.torch_learner import TorchLearner
from artos.plan import Plan
from artos.protocol.invocations import Invoke
from artos.spec import is_observation


class ActorCriticLearner(TorchLearner):
    """The base of PPO, A2C and IMPALA.

    ``anneal`` lowers the learning rate linearly to 0 over the run. ``bfloat16`` runs the network in
    bfloat16 autocast (weights and losses stay float32).
    """

    calls: ClassVar[tuple[str, ...]] = ("evaluate",)

    def __init__(
        self,
        lr: float,
        anneal: bool,
        gamma: float,
        lam: float,
        vf_coef: float,
        ent_coef: float,
        max_grad_norm: float | None,
        bfloat16: bool,
        threads: int,
    ) -> None:
        super().__init__(lr, max_grad_norm, threads)
        self.anneal, self.gamma, self.lam = anneal, gamma, lam
        self.vf_coef, self.ent_coef, self.bfloat16 = vf_coef, ent_coef, bfloat16
        self._seconds: dict[str, float] = {}

    def setup(self, context: LearnerContext) -> None:
        """Adopt the network; find out which keys are observations."""
        super().setup(context)
        keys = [key for key in context.plan.data_keys if is_observation(key.name)]
        self._parts = [k.name for k in keys]
        self._large = {k.name for k in keys if len(k.shape) > 1}

    def faults(self, plan: Plan) -> list[str]:
        """Settings out of range."""
        return [*super().faults(plan), *self._out_of_range()]

    def _out_of_range(self) -> Iterator[str]:
        for name, value in {"gamma": self.gamma, "lam": self.lam}.items():
            if not 0 <= value <= 1:
                yield f"{name} must be within 0 and 1, not {value}"
        for name, value in {"vf_coef": self.vf_coef, "ent_coef": self.ent_coef}.items():
            if not 0 <= value < math.inf:
                yield f"{name} must be finite and not negative, but is {value}"

    def seconds(self) -> Mapping[str, float]:
        """Seconds of the last invocation by kind."""
        return self._seconds

    # -- rows ----------------------------------------------------------------------------------

    def _anneal(self, call: Invoke) -> None:
        if self.anneal:
            self.network.optimiser.lr = self.lr * max(0.0, 1.0 - call.progress)

    def _rows(
        self, batch: Batch, names: tuple[str, ...], **arrays: NDArray[Any]
    ) -> dict[str, Tensor]:
        """``arrays``, keys of the batch and all observations but pictures, each (rows, *shape)."""
        names += tuple(n for n in self._parts if n not in self._large)
        names += ("valid",) if "valid" in batch.names else ()
        found = arrays | {n: batch.gather(n) for n in names}
        return {n: self.tensor(a.reshape(len(batch), *a.shape[3:])) for n, a in found.items()}

    def _evaluate(
        self, batch: Batch, rows: Mapping[str, Tensor], index: NDArray[np.int64]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Log-probabilities, entropy and values, each (n,), of the ``rows``, at ``index``."""
        observations = {
            key: self.tensor(batch.take(key, index)) if key in self._large else rows[key]
            for key in self._parts
        }
        module: Any = self.module
        with torch.autocast("cpu", torch.bfloat16, enabled=self.bfloat16):
            log_probs, entropy, values = module.evaluate(observations, rows["actions"])
        return log_probs.float(), entropy.float(), values.float()


def explained_variance(returns: Tensor, values: Tensor) -> dict[str, float]:
    """The share of the variance of returns that values explain, as a metric; 0 if there is none."""
    spread = float(returns.var()) if len(returns) > 1 else 0.0
    return {"explained_variance": 1.0 - float((returns - values).var()) / spread if spread else 0.0}
