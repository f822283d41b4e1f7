"""GRPO (Shao et al. 2024) on tokens, by Prime-RL's losses: its settings, its update, its table."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from msgspec.structs import replace
from torch import Tensor

from artos.actors.groups import GroupActor
from artos.buffer.samplers.batch import Batch
from artos.learners.completions import Completions, by_completion, completions
from artos.learners.settings import (
    OPEN,
    Actors,
    Env,
    LongestGradient,
    Threads,
    TotalSteps,
    WaySettings,
    builder,
    fitted,
    learner,
    left_open,
    out_of_range,
    settings_of_learner,
    table,
)
from artos.learners.torch_learner import TorchLearner
from artos.losses.grpo import Loss, group_advantages, grpo_loss
from artos.policies.language_model import LanguageModel, require_model
from artos.policies.text import TextPolicy, require_texts
from artos.protocol.invocations import Invoke
from artos.runs.plan import Plan
from artos.specs.keys import OBSERVATIONS
from artos.specs.workload import Workload
from triggers import DataKeyTrigger, ObjectKeyTrigger

_SOLVED = 1 - 1e-6
_FEW = (
    "an update learns from {} completions, which {} cannot divide: lower learners, or "
    "raise group, groups or actors"
)


class GRPOStart(WaySettings, frozen=True):
    """By position."""

    env: Env = "ReverseText-v0"
    actors: Actors = 2
    total_steps: TotalSteps = 400_000


class GRPOSettings(GRPOStart, kw_only=True, frozen=True):
    """What can be set of GRPO, with its defaults."""

    groups: Annotated[int, table("prompts that an actor answers in a round")] = 16
    group: Annotated[
        int, learner("completions of each prompt, which are compared", ge=2, le=1024)
    ] = 16
    steps: Annotated[
        int, table("tokens of a completion at most", usual="half of the longest text")
    ] = OPEN
    max_lag: Annotated[int, table("versions rows may be old; 0: sample and learn in turn")] = 1
    model: Annotated[
        str | None, table("file of a language model, which learns on; none: a new transformer")
    ] = None
    rank: Annotated[int, table("rank of what a language model learns", of="model")] = 8
    width: Annotated[int, table("width of the new transformer", of="not model")] = 96
    layers: Annotated[int, table("blocks of the new transformer", of="not model")] = 2
    heads: Annotated[int, table("heads of each block", of="not model")] = 4
    lr: Annotated[float, learner("step size")] = 1e-3
    normalize_advantages: Annotated[bool, learner("divide by the deviation in the group")] = True
    loss: Annotated[Loss, learner("how tokens of older weights count")] = "dppo"
    mask_low: Annotated[
        float, learner("how far down a probability may go", ge=0, le=1, of="loss=dppo")
    ] = 0.2
    mask_high: Annotated[
        float, learner("how far up it may go, else it is masked", ge=0, le=1, of="loss=dppo")
    ] = 0.2
    delta: Annotated[float, learner("bound of the ratio", gt=0, unbounded=True)] = 8.0
    kl: Annotated[float, learner("weight of the squared logarithm of the ratio", ge=0)] = 1e-3
    max_grad_norm: LongestGradient = 1.0
    threads: Threads = 0


class GRPO(TorchLearner):
    """One gradient step with a round of all actors, each token weighed by its whole completion.

    A completion's advantage is what it was paid beyond the mean of its group. Its tokens are those
    up to the environment's first end in the round; one that does not end counts with what it was
    paid so far. ``exact_match`` is the share that was paid 1 or more.
    """

    Settings: ClassVar[type[GRPOSettings]] = GRPOSettings
    replicable: ClassVar[bool] = True
    calls: ClassVar[tuple[str, ...]] = ("scores",)
    reads: ClassVar[tuple[str, ...]] = (OBSERVATIONS, "actions", "rewards", "log_probs")

    def __init__(self, settings: GRPOSettings | None = None, /, **given: Any) -> None:
        """With these settings, or with those given by name and defaults for the others."""
        self.settings = settings or settings_of_learner(self.Settings, given)
        super().__init__(self.settings.lr, self.settings.max_grad_norm, self.settings.threads)
        self._seconds: dict[str, float] = {}

    def out_of_range(self) -> Iterator[str]:
        """Settings that no run could use."""
        yield from super().out_of_range()
        yield from out_of_range(self.settings)

    def faults(self, plan: Plan) -> list[str]:
        """Settings out of range, or groups that do not divide an actor's environments."""
        found, group = super().faults(plan), self.settings.group
        if group > 0 and plan.envs % group:
            found.append(f"{plan.envs} envs of an actor do not divide into groups of {group}")
        if (texts := plan.at_work.least * plan.envs) < plan.replicas:
            found.append(_FEW.format(texts, plan.replicas_setting))
        return [*found, *self.settings.way.faults()]

    def version_published(self, version: int) -> None:
        """Pass it on, if actors do not read the run's memory."""
        plan, way = self.context.plan, self.settings.way
        if way.kind != "block":
            channel = way.opened(plan.layout, plan.resumes, plan.deadline)
            channel.send(version, self.network.values.detach().cpu().numpy())

    def seconds(self) -> Mapping[str, float]:
        """Seconds of the last invocation by kind."""
        return self._seconds

    def update(self, batch: Batch, call: Invoke) -> dict[str, float]:
        """One step; of replicas each has its part of the completions."""
        began, s = time.perf_counter(), self.settings
        ends = by_completion(batch, "terminations") | by_completion(batch, "truncations")
        texts, actions, rewards, behaviour = (by_completion(batch, name) for name in self.reads)
        found = completions(texts, actions, rewards, ends)
        gathered = time.perf_counter()
        returns, mine = self.tensor(found.returns), self.replicas.part(np.arange(len(actions)))
        gains = group_advantages(returns, s.group, normalize=s.normalize_advantages)
        valid = self.tensor(found.valid[mine])
        self.replicas.weigh(valid.sum())
        logs = self._log_probs(found.part(mine), self.tensor(actions[mine]))
        weights = gains[self.tensor(mine), None].expand_as(logs)
        tokens = (logs, self.tensor(behaviour[mine]), weights, valid)
        loss, report = grpo_loss(
            *(each.flatten() for each in tokens),
            mask_low=s.mask_low, mask_high=s.mask_high, delta=s.delta, kl=s.kl, loss=s.loss,
        )  # fmt: skip
        self.step(loss)
        metrics = {name: float(value) for name, value in self.replicas.total(report).items()}
        self._seconds = {"gather": gathered - began, "learn": time.perf_counter() - gathered}
        exact = float((found.returns > _SOLVED).mean())
        return metrics | {"exact_match": exact, "reward": float(found.returns.mean())}

    def _log_probs(self, found: Completions, actions: Tensor) -> Tensor:
        """Of the tokens that were written, (N, T), by the network as it is."""
        # Rows of later episodes are masked: any place in the text will do for them.
        lengths = np.where(found.valid, found.lengths, 1)
        text = np.ascontiguousarray(found.text[:, : max(1, lengths.max())])
        module: Any = self.module
        scores = module.scores(self.tensor(text), self.tensor(lengths))
        return torch.log_softmax(scores, -1).gather(-1, actions.unsqueeze(-1)).squeeze(-1)


@builder(GRPOSettings)
def workload(settings: GRPOSettings) -> Workload:
    """GRPO on any environment that is a text.

    An observation is the text so far, an action its next token, and the last one is rewarded. An
    update learns from one round of all actors that take part, in which each of them writes
    ``group`` completions of each of ``groups`` prompts. ``max_lag`` is as with PPO.
    """
    s = settings
    policy: Any = partial(TextPolicy, width=s.width, layers=s.layers, heads=s.heads)
    if s.model is not None:
        require_model(s.model, s.rank)  # before the environment, which may need the same packages
        policy = partial(LanguageModel, file=s.model, rank=s.rank)
    actor = GroupActor(s.env, policy, s.groups, s.group, s.way)
    require_texts(actor.spec, "GRPO")
    found = fitted(s, actor.spec)
    if found.steps is OPEN:
        found = replace(found, steps=max(1, actor.spec.parts[0].shape[0] // 2))
    keys = tuple(key.name for key in actor.data_keys())
    return Workload(
        name="grpo",
        actor=actor,
        learner=GRPO(found),
        triggers={
            "learner.update": DataKeyTrigger(keys, size=found.steps, max_lag=found.max_lag),
            "actors.sample": ObjectKeyTrigger("model_param"),
        },
        actors=found.actors, steps=found.steps, total_steps=found.total_steps,
        settings=left_open(found),
    )  # fmt: skip
