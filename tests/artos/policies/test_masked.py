"""Built-in policies never choose what is masked, and rate what may be chosen as if it were all."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from masked_env import allowed
from torch import Tensor, nn

from artos.envs.make import describe
from artos.envs.spec import EnvSpec
from artos.policies.acting import ActInfo
from artos.policies.actor_critic import ActorCritic
from artos.policies.fast import FastMlp, TorchActor, make_actor
from artos.policies.flat import named_tensors
from artos.policies.plain import plain
from artos.policies.recurrent import MEMORY, RecurrentActorCritic
from artos.policies.squashed import Softmax
from artos.policies.values import Epsilon, QNetwork
from artos.specs.keys import MASK_KEY

ONE, TWO = describe("masked_env:in_info"), describe("masked_env:several")
ROWS = 400
Kinds = dict[str, tuple[EnvSpec, Callable[[EnvSpec], nn.Module]]]
KINDS: Kinds = {
    "actor-critic": (ONE, ActorCritic),
    "actor-critic of several": (TWO, ActorCritic),
    "recurrent": (ONE, partial(RecurrentActorCritic, width=8)),
    "recurrent of several": (TWO, partial(RecurrentActorCritic, width=8)),
    "values": (ONE, QNetwork),
    "values, dueling and at random": (ONE, partial(QNetwork, dueling=True, epsilon=Epsilon(1, 1))),
    "softmax": (ONE, Softmax),
    "softmax at random": (ONE, partial(Softmax, random=100)),
}


def seen(spec: EnvSpec, rows: int = ROWS) -> dict[str, Any]:
    """Observations in which different actions are allowed; and the state of a memory."""
    sizes = spec.actions.sizes
    mask = np.array([allowed(at, sizes) for at in range(rows)], bool)
    numbers = np.random.default_rng(0).normal(size=(rows, 1)).astype(np.float32)
    return {spec.features[0].name: numbers, MASK_KEY: mask}


def info_of(module: nn.Module, rows: int = ROWS, **more: Any) -> ActInfo:
    state = {
        key.name: np.ones((rows, *key.shape), np.float32) for key in getattr(module, "state", ())
    }
    return ActInfo(state=state, **more)


def sharpened(module: nn.Module) -> nn.Module:
    """With weights so large that the forbidden would often be the best by far."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(20).add_(torch.randn_like(parameter))
    return module


def is_allowed(actions: Any, mask: Any, spec: EnvSpec) -> Any:
    columns = actions.reshape(len(mask), -1) + np.cumsum((0, *spec.actions.sizes[:-1]))
    return np.take_along_axis(mask, columns, 1).all()


@pytest.mark.parametrize("greedy", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_masked_is_never_chosen(kind: str, greedy: bool) -> None:
    spec, make = KINDS[kind]
    torch.manual_seed(1)
    module = sharpened(make(spec))
    obs, policy = seen(spec), make_actor(module, spec, seed=1)
    policy.bind(
        np.concatenate([t.detach().reshape(-1).numpy() for t in named_tensors(module).values()])
    )
    chosen = set()
    for _ in range(5):
        actions = policy.act(obs, info_of(module, greedy=greedy))["actions"]
        assert is_allowed(actions, obs[MASK_KEY], spec)
        chosen |= set(actions.reshape(ROWS, -1)[:, 0].tolist())
    assert len(chosen) >= 3
    free = {**obs, MASK_KEY: np.ones_like(obs[MASK_KEY])}
    actions = policy.act(free, info_of(module, greedy=greedy))["actions"]
    assert not is_allowed(actions, obs[MASK_KEY], spec), "it would have chosen them"


def tensors(obs: dict[str, Any]) -> dict[str, Tensor]:
    return {name: torch.from_numpy(value) for name, value in obs.items()}


@pytest.mark.parametrize("spec", [ONE, TWO], ids=["one", "several"])
def test_probabilities_are_those_among_what_may_be_chosen(spec: EnvSpec) -> None:
    torch.manual_seed(1)
    module, obs = sharpened(ActorCritic(spec)), tensors(seen(spec))
    acted = module.act(obs, ActInfo())  # type: ignore[operator]
    logs, entropy, _ = module.evaluate(obs, acted["actions"])  # type: ignore[operator]
    torch.testing.assert_close(logs, acted["log_probs"])
    free, _ = module({name: part for name, part in obs.items() if name != MASK_KEY})
    pieces = zip(
        *(torch.split(t, spec.actions.sizes, 1) for t in (free, obs[MASK_KEY])), strict=True
    )
    found_logs, found_entropy = torch.zeros(ROWS), torch.zeros(ROWS)
    for column, (piece, mask) in enumerate(pieces):
        for row in range(ROWS):
            among = torch.softmax(piece[row][mask[row]].double(), 0)
            place = mask[row].cumsum(0)[acted["actions"].reshape(ROWS, -1)[row, column]] - 1
            found_logs[row] += among[place].log()
            found_entropy[row] -= torch.special.xlogy(among, among).sum()
    torch.testing.assert_close(logs, found_logs, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(entropy, found_entropy, rtol=1e-4, atol=1e-4)


def test_losses_have_finite_gradients() -> None:
    module, obs = ActorCritic(ONE), tensors(seen(ONE))
    actions = module.act(obs, ActInfo())["actions"]
    logs, entropy, _ = module.evaluate(obs, actions)
    (logs.sum() - entropy.sum()).backward()
    assert module.policy_weight.grad is not None
    assert module.policy_weight.grad.isfinite().all()
    assert module.policy_weight.grad.abs().max() > 0


def test_the_fast_twin_and_plain_layers_give_the_same() -> None:
    torch.manual_seed(2)
    module, obs = sharpened(ActorCritic(TWO)), seen(TWO)
    flat = np.concatenate([t.detach().reshape(-1).numpy() for t in named_tensors(module).values()])
    fast, slow = FastMlp(module, TWO, 1), TorchActor(ActorCritic(TWO), 1)
    for policy in (fast, slow):
        policy.bind(flat)
    found, wanted = (policy.act(obs, ActInfo(greedy=True)) for policy in (fast, slow))
    again = plain(module).act(tensors(obs), ActInfo(greedy=True))  # type: ignore[operator]
    for name in ("actions", "log_probs", "values"):
        np.testing.assert_allclose(found[name], wanted[name], rtol=1e-3, atol=1e-3, err_msg=name)
        torch.testing.assert_close(
            again[name].detach(), torch.from_numpy(wanted[name]), rtol=1e-3, atol=1e-3
        )


def test_sequences_are_rated_under_the_mask_of_each_step() -> None:
    steps, width = 20, ROWS // 20
    module = RecurrentActorCritic(ONE, width=8)
    obs = {k: v.unflatten(0, (steps, width)) for k, v in tensors(seen(ONE)).items()}
    state, ends = {MEMORY: torch.zeros(width, 16)}, torch.zeros(steps, width, dtype=torch.bool)
    out, _ = module.unroll(obs, state, ends)
    assert ((out < -1e7) == ~obs[MASK_KEY]).all()


def test_the_entropy_of_uniform_choices_is_the_logarithm_of_what_is_allowed() -> None:
    module, obs = Softmax(ONE), tensors(seen(ONE))
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.zero_()
        logs = module(obs)
    entropy = -(logs.exp() * logs).sum(1)
    torch.testing.assert_close(entropy, obs[MASK_KEY].sum(1).log())
    assert entropy.min() == pytest.approx(math.log(2))
