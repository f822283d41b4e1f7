"""Learners from replay against their equations, written once more without their machinery."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from functools import partial, partialmethod
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from artos import D4PG, DDPG, DQN, SAC, TD3, CrossQ, Rainbow
from artos.buffer.samplers.drawn_batch import DrawnBatch
from artos.envs.spec import ActionSpec, EnvSpec, Part
from artos.learners.context import LearnerContext
from artos.learners.device import device_of
from artos.learners.network import Network, Value
from artos.learners.off_policy import OffPolicyLearner
from artos.learners.settings import ReplaySettings
from artos.policies.categorical import CategoricalQNetwork
from artos.policies.encoders import normalizers
from artos.policies.renormed import RenormGaussian
from artos.policies.squashed import Deterministic, Softmax, SquashedGaussian
from artos.policies.values import QNetwork
from artos.protocol.invocations import Invoke
from artos.specs.members import LEARNER

ROWS, SIDES = 6, (8,)
PARTS = (Part("observations.a", (3,), "float32"), Part("observations.b", (), "int64", 1, (2,)))
DISCRETE = EnvSpec("toy", PARTS, ActionSpec("discrete", (), (3,)))
BOX = EnvSpec("toy", PARTS, ActionSpec("box", (2,), (), (-2.0, 0.0), (2.0, 1.0)))
CALL = Invoke(1, "learner.update", "update")


class WeighedBatch(DrawnBatch):
    """Notes the priorities it is given."""

    priorities: np.ndarray

    def prioritise(self, priorities: np.ndarray) -> None:
        self.priorities = priorities.copy()


def a_batch(spec: EnvSpec, seed: int = 0) -> WeighedBatch:
    rng = np.random.default_rng(seed)
    arrays: dict[str, Any] = {}
    for prefix in ("", "next."):
        arrays[f"{prefix}observations.a"] = rng.normal(size=(ROWS, 3)).astype(np.float32)
        arrays[f"{prefix}observations.b"] = rng.integers(0, 2, ROWS)
    continuous = rng.uniform((-2, 0), (2, 1), (ROWS, 2)).astype(np.float32)
    arrays["actions"] = continuous if spec.actions.kind == "box" else rng.integers(0, 3, ROWS)
    arrays["n_step.returns"] = rng.normal(size=ROWS).astype(np.float32)
    arrays["n_step.discounts"] = np.array([0.9, 0, 0.81, 0.9, 0, 0.9], np.float32)
    arrays["weights"] = rng.uniform(0.2, 1, ROWS).astype(np.float32)
    return WeighedBatch(arrays, None)  # type: ignore[arg-type]


Kind = tuple[Callable[[], OffPolicyLearner], type[nn.Module], EnvSpec]
KINDS: dict[str, Kind] = {
    "dqn": (partial(DQN, target_every=2, tau=0.5), QNetwork, DISCRETE),
    "rainbow": (partial(Rainbow, target_every=2), CategoricalQNetwork, DISCRETE),
    "sac": (partial(SAC, hidden=SIDES), SquashedGaussian, BOX),
    "sac-discrete": (partial(SAC, hidden=SIDES), Softmax, DISCRETE),
    "td3": (partial(TD3, hidden=SIDES), Deterministic, BOX),
    "ddpg": (partial(DDPG, hidden=SIDES), Deterministic, BOX),
    "crossq": (
        partial(CrossQ, hidden=SIDES, critic_hidden=SIDES, delay=2),
        partial(RenormGaussian, after=100),
        BOX,
    ),
    "d4pg": (partial(D4PG, hidden=SIDES, v_min=-3.0, v_max=3.0, atoms=5), Deterministic, BOX),
}


def made(name: str, seed: int = 0, *, normalize: bool = False, **settings: Any) -> Any:
    kind, policy, spec = KINDS[name]
    learner = kind(**settings)  # type: ignore[call-arg]
    keys = [SimpleNamespace(name=part.name) for part in spec.parts]
    plan: Any = SimpleNamespace(data_keys=keys, env_spec=msgspec.to_builtins(spec), learner=LEARNER)
    torch.manual_seed(seed)
    module = policy(spec, hidden=SIDES, normalize=normalize)  # type: ignore[call-arg]
    learner.setup(LearnerContext(plan, module, 5))
    return learner


def observed(batch: Mapping[str, Any], prefix: str = "") -> dict[str, Tensor]:
    return {p.name: torch.from_numpy(batch[prefix + p.name]) for p in PARTS}


def wanted(batch: Mapping[str, Any], values: Tensor) -> Tensor:
    returns, discounts = batch["n_step.returns"], batch["n_step.discounts"]
    return torch.from_numpy(returns) + torch.from_numpy(discounts) * values


def stepped(module: nn.Module, loss: Tensor, lr: float, eps: float, most: float | None) -> Tensor:
    """All parameters after one step of torch's Adam."""
    optimizer = torch.optim.Adam(module.parameters(), lr, eps=eps)
    optimizer.zero_grad()
    loss.backward()
    if most is not None:
        nn.utils.clip_grad_norm_(module.parameters(), most)
    optimizer.step()
    return torch.cat([p.detach().reshape(-1) for p in module.parameters()])


def parameters(network: Any) -> Tensor:
    return network.values[: network.count]


def apart(network: Any) -> nn.Module:
    return copy.deepcopy(network.module).requires_grad_(True)


@pytest.mark.parametrize("double", [False, True])
def test_dqn(double: bool) -> None:
    learner, batch = made("dqn", double=double), a_batch(DISCRETE)
    learner.target.values.add_(0.1)
    module, target = apart(learner.network), apart(learner.target)
    with torch.no_grad():
        following = target(observed(batch, "next."))
        chosen = (module(observed(batch, "next.")) if double else following).argmax(1)
        aim = wanted(batch, following[torch.arange(ROWS), chosen])
    found = module(observed(batch))[torch.arange(ROWS), torch.from_numpy(batch["actions"])]
    loss = (
        functional.huber_loss(found, aim, reduction="none") * torch.tensor(batch.weights)
    ).mean()
    metrics = learner.update(batch, CALL)
    assert metrics["loss"] == pytest.approx(loss.item(), rel=1e-5)
    after = stepped(module, loss, 1e-3, 1e-5, 10.0)
    torch.testing.assert_close(parameters(learner.network), after, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(batch.priorities, (found - aim).abs().detach(), rtol=1e-4)


def own(kind: type, method: str) -> type:
    """A user's, which has that method of its own."""
    inherited = getattr(kind, method)
    return type(f"Own{kind.__name__}", (kind,), {method: partialmethod(inherited)})


ALIKE: dict[str, tuple[type, str, dict[str, Any]]] = {
    "dqn": (DQN, "loss", {}),
    "dqn, dueling": (DQN, "loss", {"dueling": True}),
    "sac": (SAC, "_policy_loss", {}),
    "td3": (TD3, "_critic_loss", {}),
    "ddpg": (DDPG, "_policy_loss", {}),
}


@pytest.mark.parametrize("share", [1.0, 0.25])
@pytest.mark.parametrize("which", ALIKE)
def test_steps_without_autograd_are_as_with_it(
    which: str, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, method, more = ALIKE[which]
    left, name = [], which.partition(",")[0]
    _, policy, spec = KINDS[name]
    for each in (kind, own(kind, method)):
        made_so = each if kind is DQN else partial(each, hidden=SIDES)
        monkeypatch.setitem(KINDS, name, (made_so, partial(policy, **more), spec))
        learner = made(name)
        learner.replicas.share = share
        assert (learner._analytic is None) == (each is not kind)
        metrics = [learner.update(a_batch(spec, seed), CALL) for seed in range(4)]
        networks = (learner.network, *learner.owned.values())
        left.append(([each.values.clone() for each in networks], metrics))
        learner.replicas.share = 1.0
    torch.testing.assert_close(*left, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    ("name", "network"),
    [("dqn", "network"), ("sac", "network"), ("sac", "critics"), ("ddpg", "network")],
)
def test_frozen_weights_stay(name: str, network: str) -> None:
    learner = made(name)
    frozen, *learned = getattr(learner, network).module.parameters()
    frozen.requires_grad_(False)
    at = [each.clone() for each in (frozen, *learned)]
    learner.update(a_batch(KINDS[name][2]), CALL)
    assert learner._analytic is not None
    assert torch.equal(frozen, at[0])
    assert not torch.equal(learned[-1], at[-1])


@pytest.mark.parametrize("name", ["dqn", "sac", "ddpg"])
def test_what_goes_on_from_a_snapshot_steps_its_own_network(name: str) -> None:
    batch, before, after = a_batch(KINDS[name][2]), made(name), made(name)
    before.update(batch, CALL)
    after.network.values.copy_(before.network.values)
    after.go_on(before.snapshot())
    assert after._analytic is not before._analytic
    at = before.network.values.clone()
    after.update(batch, CALL)
    assert torch.equal(before.network.values, at)
    assert not torch.equal(after.network.values, at)


@pytest.mark.parametrize("setting", [{"bfloat16": True}, {"compile": "on"}])
@pytest.mark.parametrize("name", ["dqn", "sac"])
def test_what_is_asked_of_autograd_is_left_to_it(name: str, setting: dict[str, Any]) -> None:
    assert made(name, **setting)._analytic is None
    assert made("sac-discrete")._analytic is made("d4pg")._analytic is None


def test_the_target_of_dqn_moves_when_it_is_due() -> None:
    learner, start = made("dqn"), made("dqn").target.values
    learner.update(a_batch(DISCRETE), CALL)
    assert torch.equal(learner.target.values, start)
    learner.update(a_batch(DISCRETE), CALL)
    torch.testing.assert_close(learner.target.values, (start + learner.network.values) / 2)


def test_rainbow() -> None:
    """Without noise: the distance from each target, which is made here return by return."""
    learner, batch = made("rainbow"), a_batch(DISCRETE)
    learner.target.values[: learner.target.count].mul_(1.1)
    for network in (learner.network, learner.target):
        for name, each in network.module.named_parameters():
            each.data *= "deviation" not in name
    module, target = apart(learner.network), apart(learner.target)
    support, rows = torch.linspace(-10, 10, 51), torch.arange(ROWS)
    with torch.no_grad():
        following = observed(batch, "next.")
        chosen = (module.log_probs(following).exp() * support).sum(2).argmax(1)  # type: ignore[operator]
        after = target.log_probs(following).exp()[rows, chosen]  # type: ignore[operator]
        aim = torch.zeros(ROWS, 51)
        for row in range(ROWS):
            for mass, value in zip(after[row], support.tolist(), strict=True):
                moved = batch["n_step.returns"][row] + batch["n_step.discounts"][row] * value
                shares = (1 - (support - np.clip(moved, -10, 10)).abs() / 0.4).clamp(min=0)
                aim[row] += mass * shares
    found = module.log_probs(observed(batch))[rows, torch.from_numpy(batch["actions"])]  # type: ignore[operator]
    each = (aim * (aim.clamp(min=1e-30).log() - found)).sum(1)
    loss = (torch.tensor(batch.weights) * each).mean()
    assert learner.update(batch, CALL)["loss"] == pytest.approx(loss.item(), rel=1e-4)
    np.testing.assert_allclose(batch.priorities, each.detach(), rtol=1e-3)
    q = (found.detach().exp() * support).sum(1).mean().item()
    assert made("rainbow").update(batch, CALL)["q"] != pytest.approx(q), "weights are not noisy"


@pytest.mark.parametrize("name", ["sac", "sac-discrete"])
def test_sac(name: str) -> None:
    learner = made(name, lr=1e-3, critic_lr=2e-3, temperature=0.5, temperature_lr=1e-2)
    spec = KINDS[name][2]
    batch, policy = a_batch(spec), apart(learner.network)
    critics, targets = apart(learner.critics), apart(learner.targets)
    torch.manual_seed(5 * 1_000_003)
    weights, actions = torch.tensor(batch.weights), torch.from_numpy(batch["actions"])
    obs, following = observed(batch), observed(batch, "next.")
    with torch.no_grad():
        if name == "sac":
            drawn, logs = policy.sample(following)
            value = torch.minimum(*targets(following, drawn)) - 0.5 * logs
        else:
            logs = policy(following)
            value = (logs.exp() * (torch.minimum(*targets(following)) - 0.5 * logs)).sum(1)
        aim = wanted(batch, value)
    if name == "sac":
        unit = torch.stack((actions[:, 0] / 2, actions[:, 1] * 2 - 1), 1)
        found = critics(obs, unit)
    else:
        found = critics(obs)[:, torch.arange(ROWS), actions]
    critic_loss = 0.5 * sum((weights * (each - aim) ** 2).mean() for each in found)
    new_critics = stepped(critics, critic_loss, 2e-3, 1e-8, None)  # type: ignore[arg-type]
    if name == "sac":
        drawn, logs = policy.sample(obs)
        policy_loss = (0.5 * logs - torch.minimum(*critics(obs, drawn))).mean()
        entropy = -logs.mean().detach()
    else:
        logs = policy(obs)
        rated = torch.minimum(*critics(obs)).detach()
        policy_loss = (logs.exp() * (0.5 * logs - rated)).sum(1).mean()
        entropy = -(logs.exp() * logs).sum(1).mean().detach()
    metrics = learner.update(batch, CALL)
    assert metrics["critic_loss"] == pytest.approx(critic_loss.item(), rel=1e-4)
    assert metrics["policy_loss"] == pytest.approx(policy_loss.item(), rel=1e-4)
    assert metrics["entropy"] == pytest.approx(entropy.item(), rel=1e-4)
    torch.testing.assert_close(parameters(learner.critics), new_critics, rtol=1e-4, atol=1e-6)
    new_policy = stepped(policy, policy_loss, 1e-3, 1e-5, None)
    torch.testing.assert_close(parameters(learner.network), new_policy, rtol=1e-4, atol=1e-5)
    aimed = -2 if name == "sac" else 0.5 * np.log(3)
    moved = learner.log_temperature().item() - np.log(0.5)
    assert moved == pytest.approx(-1e-2 * np.sign(entropy.item() - aimed), rel=1e-3)
    start = torch.cat([p.detach().reshape(-1) for p in targets.parameters()])
    mixed = start + 0.005 * (new_critics - start)
    torch.testing.assert_close(parameters(learner.targets), mixed, rtol=1e-5, atol=1e-6)
    errors = (found - aim).abs().mean(0).detach()
    np.testing.assert_allclose(batch.priorities, errors, rtol=1e-4)


def test_td3() -> None:
    learner, batch = made("td3", delay=2, tau=0.25), a_batch(BOX)
    policy, critics, targets = (
        apart(each) for each in (learner.network, learner.critics, learner.targets)
    )
    torch.manual_seed(5 * 1_000_003)
    obs, following = observed(batch), observed(batch, "next.")
    with torch.no_grad():
        after = policy(following)
        after = (after + (torch.randn_like(after) * 0.2).clamp(-0.5, 0.5)).clamp(-1, 1)
        aim = wanted(batch, torch.minimum(*targets(following, after)))
    actions = torch.from_numpy(batch["actions"])
    found = critics(obs, torch.stack((actions[:, 0] / 2, actions[:, 1] * 2 - 1), 1))
    loss = sum((torch.tensor(batch.weights) * (each - aim) ** 2).mean() for each in found)
    before = learner.network.values.clone(), learner.targets.values.clone()
    assert learner.update(batch, CALL)["critic_loss"] == pytest.approx(loss.item(), rel=1e-5)  # type: ignore[union-attr]
    new = stepped(critics, loss, 1e-3, 1e-8, None)  # type: ignore[arg-type]
    torch.testing.assert_close(parameters(learner.critics), new, rtol=1e-5, atol=1e-6)
    assert torch.equal(learner.network.values, before[0])
    assert torch.equal(learner.targets.values, before[1])
    learner.update(batch, CALL)
    now = apart(learner.critics)
    after_policy = stepped(policy, -now(obs, policy(obs))[0].mean(), 1e-3, 1e-5, None)
    torch.testing.assert_close(parameters(learner.network), after_policy, rtol=1e-4, atol=1e-6)
    moved = before[1] + 0.25 * (learner.critics.values - before[1])
    torch.testing.assert_close(learner.targets.values, moved)


def test_ddpg() -> None:
    learner, batch = made("ddpg", tau=0.25), a_batch(BOX)
    policy, target, critic, rating = (
        apart(learner.network), apart(learner.target), apart(learner.critics),
        apart(learner.targets),
    )  # fmt: skip
    obs, following = observed(batch), observed(batch, "next.")
    with torch.no_grad():
        aim = wanted(batch, rating(following, target(following))[0])
    actions = torch.from_numpy(batch["actions"])
    found = critic(obs, torch.stack((actions[:, 0] / 2, actions[:, 1] * 2 - 1), 1))[0]
    loss = (torch.tensor(batch.weights) * (found - aim) ** 2).mean()
    before = learner.target.values.clone(), learner.targets.values.clone()
    metrics = learner.update(batch, CALL)
    assert metrics["critic_loss"] == pytest.approx(loss.item(), rel=1e-5)
    new = stepped(critic, loss, 1e-3, 1e-8, None)
    torch.testing.assert_close(parameters(learner.critics), new, rtol=1e-5, atol=1e-6)
    rated = apart(learner.critics)(obs, policy(obs)).mean()
    assert metrics["policy_loss"] == pytest.approx(-rated.item(), rel=1e-4)
    after = stepped(policy, -rated, 1e-3, 1e-5, None)
    torch.testing.assert_close(parameters(learner.network), after, rtol=1e-4, atol=1e-6)
    pairs = ((learner.target, learner.network), (learner.targets, learner.critics))
    for start, (mine, other) in zip(before, pairs, strict=True):
        torch.testing.assert_close(mine.values, start + 0.25 * (other.values - start))
    np.testing.assert_allclose(batch.priorities, (found - aim).abs().detach(), rtol=1e-4)


def test_d4pg() -> None:
    learner, batch = made("d4pg"), a_batch(BOX)
    policy, target, critic, rating = (
        apart(learner.network), apart(learner.target), apart(learner.critics),
        apart(learner.targets),
    )  # fmt: skip
    obs, following = observed(batch), observed(batch, "next.")
    atoms = torch.tensor([-3.0, -1.5, 0.0, 1.5, 3.0])
    with torch.no_grad():
        after = rating(following, target(following))[0].softmax(1)
    moved = wanted(batch, atoms.unsqueeze(1)).T.clamp(-3, 3)  # a row's returns, one an atom
    aim = torch.zeros(ROWS, 5)
    for row in range(ROWS):  # each probability to the atoms on both sides, the nearer has more
        for atom in range(5):
            for other in range(5):
                share = max(0.0, 1 - abs(float(moved[row, atom] - atoms[other])) / 1.5)
                aim[row, other] += share * after[row, atom]
    actions = torch.from_numpy(batch["actions"])
    found = critic(obs, torch.stack((actions[:, 0] / 2, actions[:, 1] * 2 - 1), 1))[0]
    each = functional.cross_entropy(found, aim, reduction="none") + torch.xlogy(aim, aim).sum(1)
    loss = (torch.tensor(batch.weights) * each).mean()
    metrics = learner.update(batch, CALL)
    assert metrics["critic_loss"] == pytest.approx(loss.item(), rel=1e-4)
    np.testing.assert_allclose(batch.priorities, each.detach(), rtol=1e-4)
    assert metrics["q"] == pytest.approx((found.softmax(1) @ atoms).mean().item(), rel=1e-4)
    new = stepped(critic, loss, 1e-3, 1e-8, None)
    torch.testing.assert_close(parameters(learner.critics), new, rtol=1e-4, atol=1e-5)
    rated = (apart(learner.critics)(obs, policy(obs))[0].softmax(1) @ atoms).mean()
    assert metrics["policy_loss"] == pytest.approx(-rated.item(), rel=1e-4, abs=1e-6)
    after_policy = stepped(policy, -rated, 1e-3, 1e-5, None)
    torch.testing.assert_close(parameters(learner.network), after_policy, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(batch.priorities, each.detach(), rtol=1e-4)


def test_crossq() -> None:
    """The first update: batch normalisation, written once more for each critic, of the joint batch.

    The second one also moves the policy, which is normalised by the states of the batch, by the
    critics that running statistics normalise.
    """
    learner = made("crossq", temperature=0.5, critic_lr=2e-3, lr=1e-3)
    batch, policy, critics = a_batch(BOX), apart(learner.network), apart(learner.critics)
    obs, following = observed(batch), observed(batch, "next.")
    torch.manual_seed(5 * 1_000_003)
    with torch.no_grad():
        drawn, logs = policy.sample(following)  # type: ignore[operator]
    actions = torch.from_numpy(batch["actions"])
    unit = torch.stack((actions[:, 0] / 2, actions[:, 1] * 2 - 1), 1)
    hot = [functional.one_hot(x["observations.b"], 2).float() for x in (obs, following)]
    both = torch.cat((
        torch.cat((obs["observations.a"], hot[0], unit), 1),
        torch.cat((following["observations.a"], hot[1], drawn), 1),
    ))  # fmt: skip
    values = [by_batch(critics.layers, which, both).squeeze(1) for which in range(2)]
    after = torch.minimum(*values)[ROWS:].detach() - 0.5 * logs
    aim = wanted(batch, after)
    found = torch.stack(values)[:, :ROWS]
    loss = 0.5 * sum((torch.tensor(batch.weights) * (each - aim) ** 2).mean() for each in found)
    metrics = learner.update(batch, CALL)
    assert metrics["critic_loss"] == pytest.approx(loss.item(), rel=1e-4)  # type: ignore[union-attr]
    optimizer = torch.optim.Adam(critics.parameters(), 2e-3, (0.5, 0.999), eps=1e-8)
    loss.backward()  # type: ignore[union-attr]
    optimizer.step()
    new = torch.cat([p.detach().reshape(-1) for p in critics.parameters()])
    torch.testing.assert_close(parameters(learner.critics), new, rtol=1e-4, atol=1e-5)
    first = learner.critics.module.layers.norms[0]
    torch.testing.assert_close(first.mean[0, 0], 0.01 * both.mean(0))
    np.testing.assert_allclose(batch.priorities, (found - aim).abs().mean(0).detach(), rtol=1e-3)
    same = torch.cat([p.detach().reshape(-1) for p in policy.parameters()])
    assert torch.equal(parameters(learner.network), same)
    learner.update(batch, CALL)
    assert learner.log_temperature().item() != pytest.approx(np.log(0.5))
    now = apart(learner.critics)
    torch.manual_seed(5 * 1_000_003 + 1)
    policy.sample(following)  # type: ignore[operator]
    shown = torch.cat((obs["observations.a"], hot[0]), 1)
    drawn, logs = policy.sampled(by_batch(policy.layers, 0, shown))  # type: ignore[operator]
    policy_loss = (0.5 * logs - torch.minimum(*now(obs, drawn))).mean()
    optimizer = torch.optim.Adam(policy.parameters(), 1e-3, (0.5, 0.999), eps=1e-5)
    policy_loss.backward()
    optimizer.step()
    moved = torch.cat([p.detach().reshape(-1) for p in policy.parameters()])
    torch.testing.assert_close(parameters(learner.network), moved, rtol=1e-4, atol=1e-5)
    first = learner.network.module.layers.norms[0]
    torch.testing.assert_close(first.mean[0, 0], 0.01 * shown.mean(0))


def by_batch(layers: Any, which: int, seen: torch.Tensor) -> torch.Tensor:
    """The outputs of one of several networks, normalised by the batch."""
    depth = len(layers.norms)
    for at, (norm, weight, bias) in enumerate(
        zip(layers.norms, layers.weights, layers.biases, strict=True), 1
    ):
        spread = torch.sqrt(seen.var(0, correction=0) + 1e-3)
        seen = (seen - seen.mean(0)) / spread * norm.scale[which, 0] + norm.shift[which, 0]
        seen = seen @ weight[which].t() + bias[which, 0]
        seen = seen.relu() if at < depth else seen
    return seen


def test_updates_are_counted_on_where_float32_has_no_more_whole_numbers() -> None:
    name = next(iter(KINDS))
    one, other = made(name), made(name, seed=1)
    one._updates.values.fill_(2**24 - 1)  # as it was always saved
    one.restored()
    for count in (2**24, 2**24 + 1, 2**24 + 2):
        one.update(a_batch(KINDS[name][2]), CALL)
        other._updates.values.copy_(torch.from_numpy(one._updates.values.numpy().copy()))
        other.restored()
        assert (one.updates, other.updates) == (count, count)
    one.updates = 2**31 - 2**24
    one.update(a_batch(KINDS[name][2]), CALL)
    assert np.isfinite(one._updates.values.numpy()).all()
    one.restored()
    assert one.updates == 2**31 - 2**24 + 1


@pytest.mark.parametrize("name", KINDS)
def test_a_restored_learner_goes_on_bit_for_bit(name: str) -> None:
    one, other = made(name, sync=3), made(name, seed=1, sync=3)
    for seed in range(3):
        one.update(a_batch(KINDS[name][2], seed), CALL)
    assert one.fresh
    for key, value in other.live().items():
        value.copy_(one.live()[key])
    other.restored()
    assert other.updates == 3
    for learner in (one, other):
        learner.fresh = False
        torch.rand(7)  # whatever else draws
        for seed in range(3, 5):
            learner.update(a_batch(KINDS[name][2], seed), CALL)
        assert not learner.fresh
    for key, value in one.live().items():
        assert torch.equal(value, other.live()[key]), key


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("dqn", {"tau": 0.0}), ("dqn", {"sync": 0}), ("dqn", {"target_every": 0}),
        ("rainbow", {"target_every": 0}),
        ("sac", {"critic_lr": 0.0}), ("sac", {"temperature": -1.0}),
        ("sac", {"temperature_lr": float("nan")}), ("td3", {"delay": 0}), ("crossq", {"delay": 0}),
        ("crossq", {"renorm_after": -1}),
        ("td3", {"target_noise": -0.1}), ("td3", {"lr": float("inf")}),
        ("d4pg", {"atoms": 1}), ("d4pg", {"v_min": float("-inf")}), ("d4pg", {"v_min": 3.0}),
    ],
)  # fmt: skip
def test_settings_out_of_range_are_told(name: str, settings: dict[str, Any]) -> None:
    learner: Any = KINDS[name][0](**settings)  # type: ignore[call-arg]
    faults = learner.faults(SimpleNamespace())
    assert len(faults) == 1
    assert next(iter(settings)) in faults[0]


@pytest.mark.parametrize("name", ["sac", "td3", "ddpg", "d4pg", "crossq"])
def test_another_step_size_of_the_critics_is_theirs_alone(name: str) -> None:
    learner = made(name)
    learner.change("critic_lr", 0.25)
    assert learner.critics.optimiser.lr == 0.25
    assert learner.network.optimiser.lr == learner.lr != 0.25
    learner.change("lr", 0.5)
    assert (learner.network.optimiser.lr, learner.critics.optimiser.lr) == (0.5, 0.25)
    assert {each.name for each in learner.changeable} == {"lr", "critic_lr"}


@pytest.mark.parametrize("name", KINDS)
def test_all_networks_scale_observations_by_the_same_statistics(name: str) -> None:
    learner = made(name, normalize=True, sync=2)
    spec = KINDS[name][2]
    for seed in range(4):
        learner.update(a_batch(spec, seed), CALL)
    seen = [torch.from_numpy(a_batch(spec, seed)["observations.a"]) for seed in (1, 3)]
    mean, var = torch.cat(seen).mean(0), torch.cat(seen).var(0, correction=0)
    networks = [learner.network, *learner.owned.values()]
    found = [each for network in networks for each in normalizers(network.module)]
    counts = {"dqn": 2, "rainbow": 2, "sac": 3, "sac-discrete": 3, "td3": 4, "ddpg": 4, "d4pg": 4}
    counts["crossq"] = 2
    assert len(found) == counts[name]
    for each in found:
        torch.testing.assert_close(each.mean, torch.cat((mean, torch.zeros(2))))
        torch.testing.assert_close(each.var, torch.cat((var, torch.ones(2))))


def test_observations_are_scaled_before_values_are_found() -> None:
    """Rows in other units, once they are known, give the same values."""
    plain, scaled = made("dqn", normalize=True), made("dqn", normalize=True)
    batch = a_batch(DISCRETE)
    other: Any = {**batch, "observations.a": 40 + 7 * batch["observations.a"]}
    for learner, rows in ((plain, batch), (scaled, other)):
        learner._count(rows)
    torch.testing.assert_close(
        plain.module(observed(batch)), scaled.module(observed(other)), rtol=1e-3, atol=1e-4
    )


@pytest.mark.parametrize("name", KINDS)
def test_in_bfloat16_an_update_is_nearly_the_same(name: str) -> None:
    exact, rounded = made(name), made(name, bfloat16=True)
    batches = [a_batch(KINDS[name][2], seed) for seed in (0, 1)]
    found = [[learner.update(b, CALL) for b in batches] for learner in (exact, rounded)]
    for one, other in zip(*found, strict=True):
        assert other == pytest.approx(one, rel=0.05, abs=0.05)
    assert found[0] != found[1], "it is rounded"
    assert {each.values.dtype for each in (rounded.network, *rounded.owned.values())} == {
        torch.float32
    }


def test_values_of_distributions_are_not_rounded_where_networks_are() -> None:
    """Rounded ones are alike, and the best action is chosen by them."""
    learner = made("rainbow")
    module, obs = learner.module, learner.observations(a_batch(DISCRETE))
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        found = module(obs)
        exact = (module.log_probs(obs).float().exp() * module.support).sum(2)
    torch.testing.assert_close(found, exact, atol=1e-5, rtol=0)


def test_rows_have_the_noise_that_they_would_have_without_replicas() -> None:
    """Also where replicas draw other numbers as well, as they do by default."""

    class Noisy(OffPolicyLearner):
        Settings = ReplaySettings

        def learn(self, batch: Any) -> dict[str, Tensor]:
            torch.rand(1 + self.replicas.rank)
            self.drawn = self.noise(3), self.noise(2)
            return {}

    def drawn(rank: int, count: int) -> tuple[Tensor, ...]:
        found: Any = object.__new__(Noisy)
        found.replicas = SimpleNamespace(
            rank=rank, count=count, total=lambda metrics: metrics, part=lambda batch: batch
        )
        found.context, found.place = SimpleNamespace(seed=7), device_of("cpu")
        found.updates, found.settings = 4, ReplaySettings("")
        found._updates = Network(Value(torch.zeros(1)))
        found.update({"rewards": np.zeros(6)}, CALL)
        return found.drawn

    alone, parts = drawn(0, 1), [drawn(rank, 2) for rank in range(2)]
    for number, whole in enumerate(alone):
        for rank, part in enumerate(parts):
            assert torch.equal(part[number], whole[rank::2])
    assert not torch.equal(alone[0][:, :2], alone[1])
