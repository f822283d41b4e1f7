"""OpenAI-ES (Salimans et al. 2017): its settings, its actor, its update, its table."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar

import numpy as np
from torch import Tensor, nn

from artos.actors.context import ActorContext
from artos.actors.rollout import RolloutActor
from artos.buffer.samplers.batch import Batch
from artos.learners.device import AUTO
from artos.learners.optimisers import Adam, Optimiser
from artos.learners.settings import (
    OPEN,
    ActorSettings,
    Envs,
    Hidden,
    Threads,
    builder,
    fitted,
    learner,
    left_open,
    out_of_range,
    settings_of_learner,
    table,
)
from artos.learners.torch_learner import TorchLearner
from artos.losses.evolution import Round, centred_ranks, returns_of, uphill
from artos.policies.build import Policy
from artos.policies.encoders import normalizers
from artos.policies.perturbed import Perturbed
from artos.protocol.invocations import Invoke
from artos.runs.plan import Plan
from artos.specs.devices import CPU
from artos.specs.keys import VALID_KEY
from artos.specs.workload import Workload
from triggers import DataKeyTrigger, ObjectKeyTrigger
from triggers.algorithms.defaults import require_numbers

_RESULTS = ("rewards", "terminations", "truncations")
_FEW = (
    "an update learns from {} pair{} of environments, which {} cannot divide: lower "
    "learners, or raise envs or actors"
)
_PAIRED = "an update compares pairs of environments: set envs to an even number, not {}"


class ESSettings(ActorSettings, kw_only=True, frozen=True):
    """What can be set of ES, with its defaults."""

    envs: Envs = 16
    steps: Annotated[
        int, table("steps of a round, and of the longest episode", usual=500, continuous=1000)
    ] = OPEN
    hidden: Hidden = (64, 64)
    normalize: Annotated[bool, table("scale observations by running statistics")] = False
    sigma: Annotated[float, learner("deviation of the parameters that are tried", gt=0)] = 0.1
    lr: Annotated[float, learner("step size")] = 0.03
    weight_decay: Annotated[float, learner("share of lr by which weights shrink", ge=0)] = 0.005
    threads: Threads = 0


class ESActor(RolloutActor):
    """Begins a round with new episodes, and acts in each environment by perturbed parameters.

    What is tried, and how episodes begin, follows from the ``Round``, so one that is sampled again
    with the same weights is the same.
    """

    kept: ClassVar[tuple[str, ...]] = ("_observations", "_state", "_stepper")

    def __init__(self, *given: Any, sigma: float, **named: Any) -> None:
        super().__init__(*given, **named)
        self.sigma = sigma

    def setup(self, context: ActorContext) -> None:
        """Also have a policy for each environment."""
        super().setup(context)
        self._perturbed: Perturbed | None = None
        if not context.plan.objects:  # nothing is learned: the policy plays as it is
            return
        made: nn.Module = self.build_module(context.plan.seed)
        policies = [self.make_policy(copy.deepcopy(made), context.seed) for _ in range(self.envs)]
        self._count = sum(each.numel() for each in made.parameters())
        self._policy = self._perturbed = Perturbed(policies, self._count)
        self._origin, self._info.greedy = (context.plan.seed, context.actor), True

    def sample(self, start: int, rows: int, call: Invoke) -> dict[str, float]:
        """Write a round of episodes, of which the last ones are cut off."""
        if self._perturbed is not None:
            ours = Round(*self._origin, self.version, start)
            noises = (ours.noise(pair, self._count) for pair in range(self.envs // 2))
            self._perturbed.perturb(noises, self.sigma)
            self._observations = self._stepper.reset(ours.reset_seed())
        return super().sample(start, rows, call)


class ES(TorchLearner):
    """A step of Adam along the gradient that the returns of perturbed parameters show.

    Each environment of each actor has tried parameters of its own for a round, in mirrored pairs.
    Only their returns are learned from: the noise is drawn again from the claims (Salimans et al.
    2017, §2.1). Returns count by their ranks.
    """

    Settings: ClassVar[type[ESSettings]] = ESSettings
    replicable: ClassVar[bool] = True
    reads: ClassVar[tuple[str, ...]] = _RESULTS

    def __init__(self, settings: ESSettings | None = None, /, **given: Any) -> None:
        """With these settings, or with those given by name and defaults for the others."""
        self.settings = settings or settings_of_learner(self.Settings, given)
        super().__init__(self.settings.lr, None, self.settings.threads)

    def optimiser(self) -> Optimiser:
        """Adam with weight decay."""
        return Adam(self.lr, eps=1e-8, weight_decay=self.settings.weight_decay)

    def device_for(self, wanted: str, module: nn.Module) -> str:
        """A GPU only where it is asked for: no network is evaluated here."""
        return super().device_for(CPU if wanted == AUTO else wanted, module)

    def faults(self, plan: Plan) -> list[str]:
        """Settings out of range, an environment without the other one of its pair, few pairs."""
        found = super().faults(plan) + ([_PAIRED.format(plan.envs)] if plan.envs % 2 else [])
        pairs = plan.at_work.least * plan.envs // 2
        if 0 < pairs < plan.replicas:
            found.append(_FEW.format(pairs, "s" if pairs > 1 else "", plan.replicas_setting))
        return found

    def out_of_range(self) -> Iterator[str]:
        """Settings that no run could use."""
        yield from super().out_of_range()
        yield from out_of_range(self.settings)

    def update(self, batch: Batch, call: Invoke) -> dict[str, float]:
        """One step with a round of all actors.

        Drawing the noise again is what takes long: of replicas each does it for its part of the
        pairs.
        """
        rewards, terminations, truncations = (batch.gather(name) for name in _RESULTS)
        ends = terminations | truncations
        if VALID_KEY in batch.names:
            ends &= batch.gather(VALID_KEY)
        returns = returns_of(rewards, ends)
        ranks = centred_ranks(returns.reshape(-1)).reshape(-1, 2)
        seed, count = self.context.plan.seed, self.network.count
        rounds = (
            Round(seed, claim.actor, version, claim.start)
            for claim, version in zip(batch.claims, batch.versions()[:, 0].tolist(), strict=True)
        )
        pairs = [(each, i) for each in rounds for i in range(batch.shape[2] // 2)]
        mine = self.replicas.part(np.arange(len(pairs)))
        noises = (pairs[n][0].noise(pairs[n][1], count) for n in mine)
        found = uphill(ranks[mine], noises, count, self.settings.sigma) * self.replicas.share
        self.network.add(self.tensor(-found))
        self.network.apply()
        steps: Any = self._rows(batch, VALID_KEY) if VALID_KEY in batch.names else ...
        for each in normalizers(self.module):
            each.update({part.name: self._rows(batch, part.name)[steps] for part in each.parts})
        return {
            "tried_mean": float(returns.mean()),
            "tried_best": float(returns.max()),
            "gradient": float(self.network.gradient.norm()),
        }

    def _rows(self, batch: Batch, name: str) -> Tensor:
        rows = batch.gather(name)
        return self.tensor(rows.reshape(len(batch), *rows.shape[3:]))


@builder(ESSettings)
def workload(settings: ESSettings) -> Workload:
    """Evolution strategies on any environment.

    An update takes a round of all actors. The episodes that are reported are those of perturbed
    parameters: ``evaluate_every`` plays with the ones they are made of.
    """
    policy = Policy(hidden=settings.hidden, normalize=settings.normalize)
    actor = ESActor(settings.env, policy, settings.envs, clip_rewards=False, sigma=settings.sigma)
    require_numbers(actor.spec, settings.normalize)
    found = fitted(settings, actor.spec)
    wanted = {*_RESULTS, VALID_KEY}
    keys = [key for key in actor.spec.data_keys() if settings.normalize or key.name in wanted]
    return Workload(
        name="es", actor=actor, learner=ES(found),
        triggers={
            "learner.update": DataKeyTrigger(
                tuple(key.name for key in keys), size=found.steps, max_lag=0
            ),
            "actors.sample": ObjectKeyTrigger("model_param"),
        },
        data_keys=keys, actors=found.actors, steps=found.steps, total_steps=found.total_steps,
        settings=left_open(found),
    )  # fmt: skip
