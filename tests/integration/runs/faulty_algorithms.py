"""A user's own algorithms, each with one thing wrong with it."""

from __future__ import annotations

from typing import Any

import torch

from artos import PPO, DataKey, Policy, RolloutActor, TorchLearner, Workload
from triggers import DataKeyTrigger, First, ObjectKeyTrigger


def assemble(learner: Any, actor: Any = None, **changes: Any) -> Workload:
    actor = actor or RolloutActor("toys_to_run:plain", Policy(hidden=(8,)), envs=1)
    keys = ("observations", "actions", "rewards")
    table = {
        "learner.update": DataKeyTrigger(keys, n=1, size=16),
        "actors.sample": ObjectKeyTrigger("model_param"),
    }
    fixed: dict[str, Any] = {
        "name": "mine", "actor": actor, "learner": learner, "triggers": table, "actors": 1,
        "steps": 16, "total_steps": 160,
    }  # fmt: skip
    return Workload(**{**fixed, **changes})


class Learner(TorchLearner):
    """Counts its updates in what it publishes."""

    def update(self, batch: Any, call: Any) -> dict[str, float]:
        loss = self.loss(call)
        self.step(loss)
        return {"loss": float(loss)}

    def loss(self, call: Any) -> torch.Tensor:
        return sum((p * p).sum() for p in self.module.parameters())  # type: ignore[return-value]


class NotANumber(Learner):
    def loss(self, call: Any) -> torch.Tensor:
        return super().loss(call) * (float("nan") if call.claims[0].start == 32 else 1.0)


class Raising(Learner):
    def loss(self, call: Any) -> torch.Tensor:
        if call.claims[0].start == 32:
            raise RuntimeError("my loss is wrong")
        return super().loss(call)


class WrongActions(torch.nn.Module):
    """Acts as if the environment took two numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = torch.nn.Parameter(torch.zeros(1))

    def act(self, obs: Any, info: Any) -> Any:
        rows = len(obs["observations"])
        zeros = torch.zeros(rows)
        return {"actions": torch.zeros(rows, 2), "log_probs": zeros, "values": zeros}

    def evaluate(self, obs: Any, actions: Any) -> Any:
        zeros = torch.zeros(len(actions)) + self.bias
        return zeros, zeros, zeros


def nan_loss() -> Workload:
    return assemble(NotANumber())


def raising_learner() -> Workload:
    return assemble(Raising())


def good() -> Workload:
    return assemble(Learner())


def wrong_policy() -> Workload:
    return assemble(Learner(), RolloutActor("toys_to_run:plain", lambda spec: WrongActions(), 1))


def unwritten_key() -> Workload:
    return assemble(Learner(), data_keys=(DataKey("rewards"), DataKey("altitude")))


def wrong_shape() -> Workload:
    return assemble(Learner(), data_keys=(DataKey("observations", (7,)), DataKey("rewards")))


def wrong_dtype() -> Workload:
    return assemble(Learner(), data_keys=(DataKey("rewards", (), "complex64"),))


def too_small() -> Workload:
    return assemble(Learner(), capacity=8)


def not_a_trigger() -> Workload:
    return assemble(Learner(), triggers={"learner.update": 3})


def no_condition() -> Workload:
    return assemble(Learner(), triggers={"learner.update": First(2)})


def in_words() -> Workload:
    return assemble(Learner(), triggers={"learner.update": "every round"})


def unknown_key() -> Workload:
    return assemble(
        Learner(),
        triggers={
            "learner.update": DataKeyTrigger(("reward",), n=1, size=16),
            "actors.sample": ObjectKeyTrigger("model_params"),
            "learner.upgrade": DataKeyTrigger(("rewards",), n=1, size=16),
        },
    )


def negative() -> Workload:
    return assemble(PPO(lr=-1.0, minibatches=0), actors=-2, steps=0, on_full="waits")


def raises() -> Workload:
    raise ZeroDivisionError("in the builder")


def nothing() -> int:
    return 3


number = 3
