"""What learners of a policy and its value share: statistics, rows as the network takes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from artos.buffer.samplers.batch import Batch
from artos.learners.context import LearnerContext
from artos.learners.network import Network
from artos.learners.reward_scale import RewardScale
from artos.learners.sequences import TimeMajor, columns, sequence_minibatches, time_major
from artos.learners.settings import ActorCriticSettings, out_of_range, settings_of_learner
from artos.learners.torch_learner import TorchLearner
from artos.losses.rounds import Floats
from artos.policies.acting import VALUES
from artos.policies.analytic import Analytic
from artos.policies.encoders import normalizers
from artos.protocol.invocations import Invoke
from artos.runs.plan import Plan
from artos.specs.keys import is_observation
from artos.system.overriding import has_own

_BOUND = 10.0
_HEADS = (
    "{0} learns from values of shape {1} a row, and the policy's have {2}: let its act return "
    "those, or say heads={2} in a subclass that learns from these"
)
_KEYS = ("rewards", "bootstraps", "terminations", "truncations")


class ActorCriticLearner(TorchLearner):
    """The base of PPO, A2C and IMPALA, whose settings are an ``ActorCriticSettings``.

    If the policy scales observations, its statistics are updated with the rows of every update,
    once they were learned from; so is the deviation of returns that rewards are divided by. Only
    the first rows are counted before: unscaled rewards may be so large that what is learned from
    them has to be unlearned. In bfloat16 autocast weights and losses stay float32.

    A policy with recurrent state learns from whole sequences, each of which begins with the state
    that its first row holds: ``evaluate`` gets state and ends of episodes, too (see
    ``RecurrentActorCritic``).
    """

    takes_episodes: ClassVar[bool] = False
    Settings: ClassVar[type[ActorCriticSettings]]
    settings: ActorCriticSettings
    calls: ClassVar[tuple[str, ...]] = ("evaluate",)
    heads: ClassVar[tuple[int, ...]] = ()
    """The shape of a row's values that it learns from."""

    def __init__(self, settings: ActorCriticSettings | None = None, /, **given: Any) -> None:
        """With these settings, or with those given by name and what is usual for the others."""
        self.settings = settings or settings_of_learner(self.Settings, given)
        lr, most = self.settings.lr, self.settings.max_grad_norm
        super().__init__(lr, most, self.settings.threads, self.settings.compile)
        self._seconds: dict[str, float] = {}

    def setup(self, context: LearnerContext) -> None:
        """Adopt the network; find out which keys are observations."""
        super().setup(context)
        keys = [key for key in context.plan.data_keys if is_observation(key.name)]
        self._parts = [k.name for k in keys]
        self._large = {k.name for k in keys if len(k.shape) > 1}
        # On a CPU pictures are read where they are, minibatch by minibatch; elsewhere they go once.
        self._piecewise = self._large if self.place.is_cpu else set()
        self._state = context.plan.state_keys
        self._normalizers = normalizers(self.module)
        self._reward_scale: Network | None = None
        if self.settings.scales_rewards:
            scale = RewardScale(context.plan.actors, context.plan.envs, self.settings.gamma)
            self._reward_scale = self.own("reward_scale", scale)

    def _without_autograd(self, known: type, *methods: str) -> Analytic | None:
        """What differentiates the network in the algorithm ``known``, if that can be done.

        In a subclass that has another one of these ``methods`` it cannot.
        """
        changed = has_own(type(self), known, "_evaluated", *methods)
        if changed or self._state or self.settings.bfloat16 or self.compile == "on":
            return None
        return Analytic.of(self.module)

    def faults(self, plan: Plan) -> list[str]:
        """Also values of several heads, which have returns that this learner does not know."""
        heads = next((key.shape for key in plan.data_keys if key.name == VALUES), ())
        why = _HEADS.format(type(self).__name__, self.heads, heads)
        return [*super().faults(plan), *([] if heads == self.heads else [why])]

    def _actors(self, plan: Plan) -> Iterable[int]:
        """From how many actors' rounds an update may learn."""
        return plan.at_work.numbers()

    def out_of_range(self) -> Iterator[str]:
        """Settings that no run could use."""
        yield from super().out_of_range()
        yield from out_of_range(self.settings)

    def seconds(self) -> Mapping[str, float]:
        """Seconds of the last invocation by kind."""
        return self._seconds

    # -- statistics ----------------------------------------------------------------------------

    def _scaled(self, rewards: Floats) -> Floats:
        """Rewards as they are learned from."""
        if self._reward_scale is None:
            return rewards
        found: Floats = np.clip(rewards / self._reward_scale().item(), -_BOUND, _BOUND)
        return found

    def _unmeasured(self) -> bool:
        """Whether there are statistics that count no rows yet."""
        scale: Any = self._reward_scale and self._reward_scale.module
        counts = [each.count for each in self._normalizers]
        counts += [] if scale is None else [scale.moments[2]]
        return any(count.item() == 0 for count in counts)

    def _count(self, batch: Batch, rows: Mapping[str, Tensor]) -> None:
        """Update statistics with a batch that was learned from; ``rows`` are all of it."""
        if self._normalizers:
            shown = {part.name for each in self._normalizers for part in each.parts}
            apart = [key for key in self._parts if key in shown and key not in rows]
            large = {key: batch.gather(key).reshape(len(batch), -1) for key in apart}
            seen = {**rows, **{key: self.tensor(array) for key, array in large.items()}}
            if "valid" in rows:
                seen = {name: seen[name][rows["valid"]] for name in shown}
            for normalizer in self._normalizers:
                normalizer.update(seen)
        if self._reward_scale is not None:
            rewards = self.tensor(batch.gather("rewards"))
            ends = self.tensor(batch.gather("terminations") | batch.gather("truncations"))
            actors = [claim.actor for claim in batch.claims]
            scale: Any = self._reward_scale.module
            valid = self.tensor(batch.gather("valid")) if "valid" in batch.names else None
            scale.update(actors, rewards, ends, valid)

    # -- rows ----------------------------------------------------------------------------------

    def _rounds(self, batch: Batch, *names: str) -> dict[str, Any]:
        """What estimates are made of: keys of whole rounds, (A, T, E), and the discounts.

        Rewards are as they are learned from.
        """
        names = (*_KEYS, *names, *(("valid",) if "valid" in batch.names else ()))
        found: dict[str, Any] = {name: batch.gather(name) for name in names}
        found["rewards"] = self._scaled(found["rewards"])
        return found | {"gamma": self.settings.gamma, "lam": self.settings.lam}

    def _anneal(self, call: Invoke) -> None:
        if self.settings.anneal:
            self.step_by(self.lr * max(0.0, 1.0 - call.progress))

    def _rows(
        self, batch: Batch, names: tuple[str, ...], **arrays: NDArray[Any]
    ) -> dict[str, Tensor]:
        """``arrays``, keys of the batch, observations but those read piecewise: (rows, *shape)."""
        names += tuple(n for n in self._parts if n not in self._piecewise)
        names += ("valid",) if "valid" in batch.names else ()
        names += (*self._state, "ages") if self._state else ()
        found = arrays | {n: batch.gather(n) for n in names}
        return {n: self.tensor(a.reshape(len(batch), *a.shape[3:])) for n, a in found.items()}

    def _evaluate(
        self, batch: Batch, rows: Mapping[str, Tensor], index: NDArray[np.int64]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Log-probabilities, entropy and values, each (n,), of the ``rows``, at ``index``."""
        return self.compiler(self._evaluated, *self._seen(batch, rows, index))

    def _seen(
        self, batch: Batch, rows: Mapping[str, Tensor], index: NDArray[np.int64]
    ) -> tuple[dict[str, Tensor], Mapping[str, Tensor], TimeMajor | None]:
        """Observations of the ``rows``, at ``index``, the rows, and their order if it matters."""
        observations = {
            key: self.tensor(batch.take(key, index)) if key in self._piecewise else rows[key]
            for key in self._parts
        }
        return observations, rows, time_major(batch.shape, index) if self._state else None

    def _evaluated(
        self, observations: Mapping[str, Tensor], rows: Mapping[str, Tensor], by: TimeMajor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        module: Any = self.module
        with torch.autocast(self.place.device.type, torch.bfloat16, enabled=self.settings.bfloat16):
            if by is not None:
                found = self._unrolled(observations, rows, by)
            else:
                found = module.evaluate(observations, rows["actions"])
        log_probs, entropy, values = (each.float() for each in found)
        return log_probs, entropy, values

    def _unrolled(
        self, observations: Mapping[str, Tensor], rows: Mapping[str, Tensor], by: TimeMajor
    ) -> Iterator[Tensor]:
        """Log-probabilities, entropy and values of whole sequences, each in the order of rows."""
        order, back = self.tensor(by.order), self.tensor(by.back)

        def arranged(values: Tensor) -> Tensor:
            return values[order].reshape(by.steps, -1, *values.shape[1:])

        begins = arranged(rows["ages"]) == 0
        ends = torch.cat((begins[1:], torch.zeros_like(begins[:1])))
        state = {name: arranged(rows[name])[0] for name in self._state}
        seen = {name: arranged(values) for name, values in observations.items()}
        module: Any = self.module
        found = module.evaluate(seen, arranged(rows["actions"]), state, ends)
        return (each.flatten(0, 1)[back] for each in found)

    def _part(
        self, batch: Batch, index: NDArray[np.int64], valid: Tensor | None
    ) -> NDArray[np.int64]:
        """This replica's part of a minibatch: every so many-th row, or sequence.

        Losses from now on are means over those of its rows that are ``valid``, of all (rows,).
        """
        if self.replicas.alone:
            return index
        if self._state:
            part = self.replicas.columns(index, columns(batch.shape, index))
        else:
            part = self.replicas.part(index)
        mine, every = (
            len(at) if valid is None else int(valid[self.tensor(at)].sum()) for at in (part, index)
        )
        self.replicas.share = mine / max(1, every)
        return part

    def _at(self, rows: Mapping[str, Tensor], index: NDArray[np.int64]) -> Mapping[str, Tensor]:
        """Rows at flat indices."""
        at = self.tensor(index)
        return {name: tensor[at] for name, tensor in rows.items()}

    def _minibatches(
        self, batch: Batch, count: int, rng: np.random.Generator
    ) -> Iterator[NDArray[np.int64]]:
        """Flat indices of random rows, or of all rows of random sequences."""
        if self._state:
            return sequence_minibatches(batch.shape, count, rng)
        return batch.minibatches(count, rng)


def explained_variance(
    returns: Tensor, values: Tensor, valid: Tensor | None = None
) -> dict[str, float]:
    """The share of the variance of returns that values explain, as a metric; 0 if there is none.

    All are (n,); rows that are not ``valid`` do not count.
    """
    if valid is not None:
        returns, values = returns[valid], values[valid]
    spread = float(returns.var()) if len(returns) > 1 else 0.0
    return {"explained_variance": 1.0 - float((returns - values).var()) / spread if spread else 0.0}
