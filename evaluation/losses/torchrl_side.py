"""V-trace and the loss of A2C, ours and TorchRL's, on the same rows: microseconds of a call.

``PYTHONPATH=. PYTHON -m evaluation.losses.torchrl_side`` in an environment with TorchRL. Both
begin with what the learner has: rows as arrays (A, T, E), the network's answers as tensors. The
networks of the loss are the same plain MLPs. What both give is compared first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from tensordict import TensorDict
from tensordict.nn import ProbabilisticTensorDictModule, ProbabilisticTensorDictSequential
from tensordict.nn import TensorDictModule as Module
from torch import Tensor, nn
from torch.distributions import Categorical
from torchrl.objectives import A2CLoss
from torchrl.objectives.value.functional import vtrace_advantage_estimate

from artos.losses.actor_critic import actor_critic_loss
from artos.losses.vtrace import vtrace
from evaluation.baselines.timing import answer, one_core, rate

SHAPES = ((1, 20, 4), (4, 100, 8))
ROWS = (40, 3200)
TURNS, SECONDS = 5, 0.5
GAMMA, VF, ENT = 0.99, 0.5, 0.01

Calls = dict[str, Callable[[], Any]]


def vtraces(shape: tuple[int, int, int]) -> Calls:
    """Advantages and targets of rounds of this shape."""
    rng = np.random.default_rng(1)
    mu, rewards, bootstraps = rng.normal(size=(3, *shape)).astype(np.float32)
    pi, values = torch.randn(2, *shape)
    over, none = rng.random(shape) < 0.02, np.zeros(shape, bool)

    def ours() -> Any:
        ratios = pi.numpy() - mu
        gains = vtrace(ratios, rewards, values.numpy(), bootstraps, over, none, GAMMA)
        return [torch.from_numpy(array) for array in gains]

    def theirs() -> Any:
        following = torch.cat([values[:, 1:], torch.from_numpy(bootstraps)[:, -1:]], 1)
        arrays = (torch.from_numpy(array) for array in (rewards, over, over))
        return vtrace_advantage_estimate(
            GAMMA, pi, torch.from_numpy(mu), values, following, *arrays
        )

    for one, other in zip(ours(), theirs(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
    return {"ours": ours, "torchrl": theirs}


def losses(rows: int) -> Calls:
    """A loss and its gradients over so many rows of CartPole."""
    policy, value = _mlp(2), _mlp(1)
    seen, advantage, target = torch.randn(rows, 4), torch.randn(rows), torch.randn(rows)
    actions = torch.randint(2, (rows,))
    given = {"observation": seen, "action": actions, "advantage": advantage[:, None],
             "value_target": target[:, None]}  # fmt: skip
    loss = A2CLoss(
        *_theirs(policy, value), entropy_coeff=ENT, critic_coeff=VF / 2, loss_critic_type="l2"
    )

    def ours() -> Tensor:
        logs = torch.log_softmax(policy(seen), -1)
        entropy = -(logs.exp() * logs).sum(-1)
        chosen, guess = logs.gather(-1, actions[:, None]).squeeze(-1), value(seen).squeeze(-1)
        total = actor_critic_loss(chosen, advantage, guess, target, entropy, VF, ENT)[0]
        return _backward(total)

    def theirs() -> Tensor:
        found = loss(TensorDict(given, [rows]))
        return _backward(found["loss_objective"] + found["loss_critic"] + found["loss_entropy"])

    weights = [*policy.parameters(), *value.parameters()]
    torch.testing.assert_close(
        _with_gradients(ours, weights), _with_gradients(theirs, weights), rtol=1e-4, atol=1e-5
    )
    return {"ours": ours, "torchrl": theirs}


def _with_gradients(loss: Callable[[], Tensor], weights: list[nn.Parameter]) -> list[Tensor]:
    """A loss, and the gradients that it leaves in these weights."""
    for weight in weights:
        weight.grad = None
    value, gradients = loss(), [each.grad for each in weights if each.grad is not None]
    assert len(gradients) == len(weights), "a weight has no gradient"
    return [value, *gradients]


def _mlp(width: int) -> nn.Module:
    layers = (nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, width))
    return nn.Sequential(*layers)


def _theirs(policy: nn.Module, value: nn.Module) -> tuple[Any, Any]:
    drawn = ProbabilisticTensorDictModule(
        in_keys=["logits"], out_keys=["action"], distribution_class=Categorical
    )
    actor = Module(policy, in_keys=["observation"], out_keys=["logits"])
    critic = Module(value, in_keys=["observation"], out_keys=["state_value"])
    return ProbabilisticTensorDictSequential(actor, drawn), critic


def _backward(loss: Tensor) -> Tensor:
    loss.sum().backward()  # type: ignore[no-untyped-call]
    return loss.detach().reshape(())


def main() -> None:
    """Measure all by turns, and take the fastest turn of each."""
    one_core()
    torch.set_num_threads(1)
    cases = {f"V-trace {shape}": vtraces(shape) for shape in SHAPES}
    cases |= {f"A2C loss, {rows} rows": losses(rows) for rows in ROWS}
    found: dict[str, float] = {}
    for _ in range(TURNS):
        for case, calls in cases.items():
            for who, call in calls.items():
                took = 1e6 / rate(call, 1, SECONDS)
                found[f"{case}: {who}"] = min(took, found.get(f"{case}: {who}", took))
    answer(found, ("torch", "torchrl", "tensordict"))


if __name__ == "__main__":
    main()
