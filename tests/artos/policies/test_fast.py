from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
import torch
from spaces_for_tests import (
    ACTIONS,
    BOX,
    DISCRETE,
    FLAT,
    MIXED,
    STACKED,
    VECTOR,
    random_obs,
    spec_with,
)
from torch import nn

from artos.envs.spec import ActionSpec, EnvSpec, Part
from artos.policies.acting import ActInfo
from artos.policies.build import Policy, check_policy
from artos.policies.fast import FastMlp, TorchActor, make_actor
from artos.policies.flat import layout, named_tensors, views


def lively(spec: EnvSpec, hidden: tuple[int, ...] = (64, 64), seed: int = 0) -> nn.Module:
    """A built policy whose every parameter is far from its initial value."""
    module = Policy(hidden=hidden).build(spec, seed)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in module.parameters():
            p.add_(torch.randn(p.shape, generator=generator) * 0.3)
    return module


def flat_of(module: nn.Module) -> np.ndarray:
    return np.concatenate([t.detach().numpy().ravel() for t in named_tensors(module).values()])


def evaluate(module: nn.Module, obs: dict, acted: dict) -> tuple[np.ndarray, np.ndarray]:
    with torch.no_grad():
        logs, _, values = module.evaluate(
            {k: torch.from_numpy(v) for k, v in obs.items()}, torch.from_numpy(acted["actions"])
        )
    return logs.numpy(), values.numpy()


@pytest.mark.parametrize("batch", [1, 4, 64])
@pytest.mark.parametrize("hidden", [(64, 64), (16,), (8, 24, 12), ()])
@pytest.mark.parametrize("parts", [(VECTOR,), FLAT], ids=["vector", "dict"])
@pytest.mark.parametrize("actions", ACTIONS, ids=[a.kind for a in ACTIONS])
def test_numpy_and_torch_agree(
    actions: ActionSpec, parts: tuple[Part, ...], hidden: tuple[int, ...], batch: int
) -> None:
    spec = spec_with(actions, *parts)
    module = lively(spec, hidden)
    actor = make_actor(module, spec, 1)
    assert isinstance(actor, FastMlp)
    actor.bind(flat_of(module))
    for seed in range(3):
        obs = random_obs(spec, batch, seed)
        acted = {name: value.copy() for name, value in actor.act(obs, ActInfo()).items()}
        logs, values = evaluate(module, obs, acted)
        np.testing.assert_allclose(acted["log_probs"], logs, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(acted["values"], values, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(actor.values(obs, ActInfo()), values, rtol=1e-5, atol=1e-5)
        assert acted["actions"].shape == (batch, *actions.shape)
        assert acted["actions"].dtype == actions.stored_dtype


@pytest.mark.parametrize("parts", [(STACKED,), MIXED], ids=["stack", "dict"])
@pytest.mark.parametrize("actions", ACTIONS, ids=[a.kind for a in ACTIONS])
def test_what_a_cnn_acts_is_what_it_evaluates(actions: ActionSpec, parts: tuple[Part, ...]) -> None:
    spec = spec_with(actions, *parts)
    module = Policy().build(spec, 0)
    actor = make_actor(Policy().build(spec, 9), spec, 1)
    assert isinstance(actor, TorchActor)
    actor.bind(flat_of(module))
    obs = random_obs(spec, 3, 0)
    acted = actor.act(obs, ActInfo())
    logs, values = evaluate(module, obs, acted)
    np.testing.assert_allclose(acted["log_probs"], logs, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(acted["values"], values, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("parts", [(VECTOR,), (STACKED,)], ids=["numpy", "torch"])
@pytest.mark.parametrize("actions", ACTIONS, ids=[a.kind for a in ACTIONS])
def test_greedy_takes_the_likeliest_action_and_draws_nothing(
    actions: ActionSpec, parts: tuple[Part, ...]
) -> None:
    spec = spec_with(actions, *parts)
    module = Policy().build(spec, 0) if parts[0] is STACKED else lively(spec)
    obs = random_obs(spec, 3, 0)

    def play(greedy: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        actor = make_actor(module, spec, 1)
        actor.bind(flat_of(module))
        for _ in range(greedy):
            best = {k: v.copy() for k, v in actor.act(obs, ActInfo(greedy=True)).items()}
        drawn = np.concatenate([actor.act(obs, ActInfo())["actions"].copy() for _ in range(9)])
        return best["actions"], best["log_probs"], drawn

    once, twice = play(1), play(2)
    for one, two in zip(once, twice, strict=True):
        np.testing.assert_array_equal(one, two)
    best, logs, drawn = once
    np.testing.assert_allclose(evaluate(module, obs, {"actions": best})[0], logs, atol=1e-5)
    for start in range(0, len(drawn), 3):
        others = evaluate(module, obs, {"actions": drawn[start : start + 3]})[0]
        assert (others <= logs + 1e-5).all()


@pytest.mark.parametrize("kind", [FastMlp, TorchActor])
def test_binding_again_changes_what_is_acted_and_nothing_else(kind: type) -> None:
    spec = spec_with(DISCRETE, VECTOR)
    old, new = lively(spec, seed=1), lively(spec, seed=2)
    obs = random_obs(spec, 4, 0)
    actor = kind(lively(spec, seed=3), spec, 0) if kind is FastMlp else kind(lively(spec), 0)
    flats = [flat_of(old), flat_of(new)]
    for module, flat in [(old, flats[0]), (new, flats[1]), (old, flats[0])]:
        before = flat.copy()
        actor.bind(flat)
        acted = actor.act(obs, ActInfo())
        np.testing.assert_allclose(acted["values"], evaluate(module, obs, acted)[1], atol=1e-5)
        np.testing.assert_array_equal(flat, before)


@pytest.mark.parametrize("kind", [FastMlp, TorchActor])
def test_weights_that_came_as_arrays_of_their_own_are_let_go(kind: type) -> None:
    spec = spec_with(DISCRETE, VECTOR)
    actor = kind(lively(spec), spec, 0) if kind is FastMlp else kind(lively(spec), 0)
    bound = [flat_of(lively(spec, seed=seed)) for seed in (1, 2)]
    for flat in bound:
        actor.bind(flat)
    gone = weakref.ref(bound.pop(0))
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("actions", [DISCRETE, BOX])
def test_values_of_many_batch_sizes_leave_what_is_drawn_as_it_is(actions: ActionSpec) -> None:
    """As where other numbers of episodes end, and are bootstrapped, in each step."""
    spec = spec_with(actions, VECTOR)
    module = Policy(correlation=0.9 if actions is BOX else 0.0).build(spec, 0)
    asked, other = (FastMlp(module, spec, 0) for _ in range(2))
    for actor in (asked, other):
        actor.bind(flat_of(module))
    for step in range(20):
        obs = random_obs(spec, 32, step)
        found, wanted = (actor.act(obs, ActInfo()) for actor in (asked, other))
        np.testing.assert_array_equal(found["actions"], wanted["actions"])
        asked.values(random_obs(spec, step + 1, step), ActInfo())


@pytest.mark.parametrize("kind", ["fast", "torch", "user"])
def test_the_same_seed_acts_the_same_whatever_else_draws(kind: str) -> None:
    spec = spec_with(DISCRETE, VECTOR)
    obs = random_obs(spec, 4, 0)

    def play(seed: int, disturb: bool) -> list[list[int]]:
        torch.manual_seed(7)
        module = UserPolicy() if kind == "user" else lively(spec)
        actor = FastMlp(module, spec, seed) if kind == "fast" else TorchActor(module, seed)
        actor.bind(flat_of(module))
        acted = []
        for _ in range(20):
            if disturb:
                torch.rand(3)
            acted.append(actor.act(obs, ActInfo())["actions"].tolist())
        return acted

    assert play(1, False) == play(1, True)
    assert play(1, False) != play(2, False)


@pytest.mark.parametrize("kind", ["fast", "torch", "user"])
def test_no_two_steps_draw_the_same_noise(kind: str) -> None:
    """Not after another step, nor after a look at values, new weights or another batch."""
    spec = spec_with(DISCRETE, VECTOR)
    module = UserPolicy() if kind == "user" else lively(spec)
    actor = FastMlp(module, spec, 1) if kind == "fast" else TorchActor(module, 1)
    flat = flat_of(module)
    obs = {"observations": np.repeat(random_obs(spec, 1, 0)["observations"], 40, 0)}
    acted = []
    between = [
        lambda: actor.values(obs, ActInfo()),
        lambda: actor.bind(flat),
        lambda: actor.act(fewer, ActInfo()),
    ]
    fewer = {name: part[:3] for name, part in obs.items()}
    actor.bind(flat)
    for pause in (lambda: None, *between):
        pause()
        acted += [tuple(actor.act(obs, ActInfo())["actions"].tolist()) for _ in range(2)]
    assert len(set(acted)) == len(acted), "forty draws in a row came again"


@pytest.mark.parametrize("actions", ACTIONS, ids=[a.kind for a in ACTIONS])
def test_numpy_samples_follow_the_distribution(actions: ActionSpec) -> None:
    spec = spec_with(actions, VECTOR)
    module = lively(spec)
    actor = make_actor(module, spec, 0)
    actor.bind(flat_of(module))
    row = random_obs(spec, 1, 3)["observations"]
    obs = {"observations": np.repeat(row, 500, 0)}
    drawn = np.concatenate([actor.act(obs, ActInfo())["actions"].copy() for _ in range(80)])
    flat = drawn.reshape(len(drawn), -1)
    with torch.no_grad():
        out = module({"observations": torch.from_numpy(row)})[0][0]
    if actions.kind == "box":
        np.testing.assert_allclose(flat.mean(0), out.numpy(), atol=0.05)
        np.testing.assert_allclose(flat.std(0), module.head.log_std.exp().detach(), rtol=0.05)
        return
    for column, logits in zip(flat.T, torch.split(out, list(actions.sizes)), strict=True):
        shares = np.bincount(column, minlength=len(logits)) / len(column)
        np.testing.assert_allclose(shares, logits.softmax(0).numpy(), atol=0.015)


def test_certain_choices_do_not_overflow() -> None:
    spec = spec_with(DISCRETE, VECTOR)
    module = lively(spec)
    flat = flat_of(module)
    views(flat, layout(module))["policy_bias"][:] = (3e4, -3e4, 0, 1e3)
    actor = make_actor(module, spec, 0)
    actor.bind(flat)
    acted = actor.act(random_obs(spec, 64, 0), ActInfo())
    assert (acted["actions"] == 0).all()
    assert (acted["log_probs"] == 0).all()


def test_weights_in_memory_that_cannot_be_written_can_be_bound() -> None:
    spec = spec_with(DISCRETE, VECTOR)
    module = lively(spec)
    flat = flat_of(module)
    flat.flags.writeable = False
    actor = TorchActor(lively(spec, seed=5), 0)
    actor.bind(flat)
    obs = random_obs(spec, 2, 0)
    acted = actor.act(obs, ActInfo())
    np.testing.assert_allclose(acted["values"], evaluate(module, obs, acted)[1], atol=1e-5)


def test_a_flat_vector_carries_parameters_and_buffers() -> None:
    class Normalised(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 2)
            self.norm = nn.BatchNorm1d(2)

    one = Normalised()
    one.norm.running_mean.fill_(7)
    names = [name for name, _ in layout(one)]
    assert names == [
        "layer.weight", "layer.bias", "norm.weight", "norm.bias",
        "norm.running_mean", "norm.running_var",
    ]  # fmt: skip
    assert (views(flat_of(one), layout(one))["norm.running_mean"] == 7).all()
    with pytest.raises(ValueError, match="the layout needs 16 floats, the vector has 17"):
        views(np.zeros(17, np.float32), layout(one))


class UserPolicy(nn.Module):
    """A user's own: no ``value``, samples from torch's global stream."""

    def __init__(self, actions: int = 4) -> None:
        super().__init__()
        self.net = nn.Linear(5, actions + 1)

    def act(self, obs: dict[str, torch.Tensor], info: ActInfo) -> dict[str, torch.Tensor]:
        out = self.net(obs["observations"])
        logits = torch.distributions.Categorical(logits=out[:, :-1])
        actions = logits.sample()
        return {"actions": actions, "log_probs": logits.log_prob(actions), "values": out[:, -1]}

    def evaluate(
        self, obs: dict[str, torch.Tensor], actions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        out = self.net(obs["observations"])
        logits = torch.distributions.Categorical(logits=out[:, :-1])
        return logits.log_prob(actions), logits.entropy(), out[:, -1]


def test_a_users_module_acts_and_bootstraps_without_a_value_method() -> None:
    spec = spec_with(DISCRETE, VECTOR)
    module = UserPolicy()
    assert check_policy(module, spec) == []
    actor = make_actor(module, spec, 0)
    actor.bind(flat_of(module))
    obs = random_obs(spec, 4, 0)
    np.testing.assert_array_equal(
        actor.values(obs, ActInfo()).copy(), actor.act(obs, ActInfo())["values"]
    )
