"""TRPO, APPO and RND against their equations, written once more without its machinery."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from torch import Tensor

import artos
from artos.envs.spec import ActionSpec, EnvSpec, Part
from artos.learners.conjugate_gradients import conjugate_gradients
from artos.learners.context import LearnerContext
from artos.policies.actor_critic import ActorCritic
from artos.specs.members import LEARNER

ROWS = 40
OBS, IMAGE = "observations", Part("observations", (36, 36), "uint8", low=0, high=255)
SPEC = EnvSpec("toy", (Part(OBS, (3,), "float32"),), ActionSpec("discrete", (), (3,)))


def made(kind: Any, spec: EnvSpec = SPEC, module: Any = None, **settings: Any) -> Any:
    """A learner that is set up, of a small network."""
    keys = [SimpleNamespace(name=part.name, shape=part.value_shape) for part in spec.parts]
    plan: Any = SimpleNamespace(
        data_keys=keys, env_spec=msgspec.to_builtins(spec), learner=LEARNER, state_keys=(),
        actors=2, envs=2, wanted=(), seed=3,
    )  # fmt: skip
    torch.manual_seed(1)
    learner = kind(**settings)
    learner.setup(LearnerContext(plan, module or ActorCritic(spec, (8,)), 5))
    return learner


def some_rows() -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    torch.manual_seed(2)
    rows = {"actions": torch.randint(0, 3, (ROWS,)), "advantages": torch.randn(ROWS)}
    return {OBS: torch.randn(ROWS, 3)}, rows | {"returns": torch.randn(ROWS)}


@pytest.mark.parametrize("kind", [artos.PPO, artos.TRPO])
def test_frozen_weights_stay(kind: Any) -> None:
    (obs, rows), learner = ppo_rows(), made(kind)
    learner.module.body.weight0.requires_grad_(False)
    at = [each.clone() for each in learner.module.body.parameters()]
    learn = learner._learn if kind is artos.PPO else learner._improve
    for _ in range(2):
        learn(obs, rows, None)
    frozen, *learned = learner.module.body.parameters()
    assert torch.equal(frozen, at[0])
    assert all(not torch.equal(now, then) for now, then in zip(learned, at[1:], strict=True))


# -- PPO ---------------------------------------------------------------------------------------


class Ours(artos.PPO):
    """A user's."""

    def _loss(self, *given: Any) -> Any:
        return super()._loss(*given)


def ppo_rows() -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    obs, rows = some_rows()
    return obs, rows | {"log_probs": torch.full((ROWS,), -1.1), "values": torch.randn(ROWS)}


@pytest.mark.parametrize("share", [1.0, 0.25])
def test_ppo_steps_without_autograd_as_with_it(share: float) -> None:
    (obs, rows), left = ppo_rows(), []
    for kind in (artos.PPO, Ours):
        learner = made(kind, ent_coef=0.01)
        learner.replicas.share = share
        assert (learner._analytic is None) == (kind is Ours)
        for _ in range(3):
            report = learner._learn(obs, rows, None)()
        left.append((learner.network.values.clone(), learner.network.steps, report))
        learner.replicas.share = 1.0
    torch.testing.assert_close(*left, atol=1e-5, rtol=1e-4)


def test_a_ppo_that_goes_on_from_a_snapshot_steps_its_own_network() -> None:
    (obs, rows), before, after = ppo_rows(), made(artos.PPO), made(artos.PPO)
    before._learn(obs, rows, None)
    after.network.values.copy_(before.network.values)
    after.go_on(before.snapshot())
    assert after._analytic is not before._analytic
    at = before.network.values.clone()
    after._learn(obs, rows, None)
    assert torch.equal(before.network.values, at)
    assert not torch.equal(after.network.values, at)


def test_a_ppo_goes_on_from_a_snapshot_by_its_own_settings() -> None:
    before, after = made(artos.PPO), made(artos.PPO, clip=0.05, bfloat16=True)
    after.go_on(before.snapshot())
    assert after.settings.clip == 0.05
    assert after._analytic is None, "nothing else computes in bfloat16"


@pytest.mark.parametrize("setting", [{"bfloat16": True}, {"compile": "on"}])
def test_what_is_asked_of_autograd_is_left_to_it(setting: dict[str, Any]) -> None:
    assert made(artos.PPO, **setting)._analytic is None


# -- TRPO --------------------------------------------------------------------------------------


def test_conjugate_gradients_solve_as_many_directions_as_steps() -> None:
    matrix, wanted = torch.tensor([[4.0, 1.0], [1.0, 3.0]]), torch.tensor([1.0, 2.0])
    once = conjugate_gradients(lambda v: matrix @ v, wanted, 1)
    torch.testing.assert_close(once, wanted * 5 / 20)  # r·r / r·Ar
    both = conjugate_gradients(lambda v: matrix @ v, wanted, 9)
    torch.testing.assert_close(both, torch.tensor([1 / 11, 7 / 11]))
    assert not conjugate_gradients(lambda v: matrix @ v, torch.zeros(2), 5).any()


def test_trpo_steps_along_the_natural_gradient() -> None:
    """Against the Fisher matrix of each row's gradient, inverted."""
    settings = {"damping": 0.1, "conjugate_steps": 200, "max_kl": 1e-4}
    learner, (obs, rows) = made(artos.TRPO, **settings), some_rows()
    start, parameters = learner.network.values.clone(), [*learner.module.parameters()]
    logs = learner.module.evaluate(obs, rows["actions"])[0]
    each = torch.stack([
        torch.cat([g.reshape(-1) for g in torch.autograd.grad(
            log, parameters, retain_graph=True, materialize_grads=True)])
        for log in logs
    ])  # fmt: skip
    matrix = each.t() @ each / ROWS + 0.1 * torch.eye(len(start))
    natural = torch.linalg.solve(matrix, rows["advantages"] @ each / ROWS)
    step = natural * torch.sqrt(2 * 1e-4 / (natural @ matrix @ natural))
    found = learner._improve(obs, rows, None)
    torch.testing.assert_close(
        learner.network.values - start, found["step"] * step, rtol=1e-2, atol=2e-5
    )
    assert found["gain"] > 0
    assert 0 < found["approx_kl"] <= 1e-4


def test_trpo_takes_no_step_where_there_is_nothing_to_gain() -> None:
    learner, (obs, rows) = made(artos.TRPO), some_rows()
    start = learner.network.values.clone()
    found = learner._improve(obs, rows | {"advantages": torch.zeros(ROWS)}, None)
    assert (found["step"], found["approx_kl"]) == (0.0, 0.0)
    assert torch.equal(learner.network.values, start)


@pytest.mark.parametrize("pictures", [False, True])
def test_what_the_critic_of_trpo_learns_leaves_the_policy_alone(pictures: bool) -> None:
    spec = EnvSpec("toy", (IMAGE,), SPEC.actions) if pictures else SPEC
    module = ActorCritic(spec, (8,), cnn=pictures, apart=True)
    learner, (obs, rows) = made(artos.TRPO, spec, module), some_rows()
    if pictures:
        obs = {OBS: torch.randint(0, 255, (ROWS, 36, 36), dtype=torch.uint8)}
    before, _, values = module.evaluate(obs, rows["actions"])
    for _ in range(3):
        learner.step(learner._value_loss(obs, rows, None))
    after, _, others = module.evaluate(obs, rows["actions"])
    assert torch.equal(before, after)
    assert not torch.equal(values, others)


# -- APPO --------------------------------------------------------------------------------------


class Rows:
    """A batch of rounds (A, T, E) as a learner reads it."""

    names: tuple[str, ...] = ()

    def __init__(self, arrays: dict[str, Any]) -> None:
        self.arrays, self.shape = arrays, arrays["rewards"].shape

    def __len__(self) -> int:
        return int(np.prod(self.shape))

    def gather(self, name: str) -> Any:
        return self.arrays[name]

    def take(self, name: str, index: Any) -> Any:
        found = self.arrays[name]
        return found.reshape(-1, *found.shape[3:])[index]

    def minibatches(self, count: int, rng: np.random.Generator) -> Any:
        return np.array_split(rng.permutation(len(self)), count)


def test_appo_weighs_rows_once_for_how_old_they_are() -> None:
    """V-trace's ratio is to the policy that sampled, PPO's to the one the update begins with."""
    learner, (obs, rows), shape = made(artos.APPO), some_rows(), (2, 10, 2)
    logs, _, values = (each.detach() for each in learner.module.evaluate(obs, rows["actions"]))
    older = logs + 0.3 * torch.randn(ROWS)
    flags = np.zeros(shape, bool)
    arrays: dict[str, Any] = {
        OBS: obs[OBS].numpy().reshape(*shape, 3), "actions": rows["actions"].numpy().reshape(shape),
        "rewards": np.ones(shape, np.float32), "bootstraps": np.full(shape, 2, np.float32),
        "terminations": flags, "truncations": flags, "log_probs": older.numpy().reshape(shape),
    }  # fmt: skip
    data = learner._prepare(Rows(arrays))
    gains, targets = artos.vtrace(
        (logs - older).numpy().reshape(shape), arrays["rewards"], values.numpy().reshape(shape),
        arrays["bootstraps"], flags, flags, gamma=0.99, lam=0.95,
    )  # fmt: skip
    np.testing.assert_allclose(data["advantages"], gains.reshape(-1), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(data["returns"], targets.reshape(-1), rtol=1e-5)
    loss, report = learner._loss(obs, data, None)
    assert report["approx_kl"] == pytest.approx(0, abs=1e-6)
    assert report["policy_loss"] == pytest.approx(-gains.mean(), rel=1e-4)
    assert loss.requires_grad


# -- RND ---------------------------------------------------------------------------------------

FEW = {"features": 4, "novelty_hidden": (6,), "epochs": 1, "minibatches": 2, "lr": 1e-3}
PICTURES = EnvSpec("toy", (IMAGE, Part("observations.speed", (2,), "float32")), SPEC.actions)


def rounds(spec: EnvSpec, seed: int = 0, far: float = 0.0) -> Any:
    """Two rounds of ten steps in two environments; numbers lie around ``far``."""
    rng, shape = np.random.default_rng(seed), (2, 10, 2)
    arrays: dict[str, Any] = {
        name: rng.normal(size=shape).astype(np.float32) for name in ("rewards", "values")
    }
    for part in spec.parts:
        if part.dtype == "uint8":
            arrays[part.name] = rng.integers(0, 255, (*shape, *part.shape), np.uint8)
        else:
            arrays[part.name] = rng.normal(far, 2, (*shape, *part.shape)).astype(np.float32)
    ends = np.zeros(shape, bool)
    ends[0, 4] = True
    batch: Any = Rows(arrays | {
        "actions": rng.integers(0, 3, shape), "log_probs": np.full(shape, -1.1, np.float32),
        "bootstraps": np.ones(shape, np.float32), "terminations": ends, "truncations": ends & False,
    })  # fmt: skip
    batch.claims = (SimpleNamespace(actor=0), SimpleNamespace(actor=1))
    return batch


def test_another_step_size_of_rnd_is_that_of_both_values() -> None:
    learner = made(artos.RND, **FEW)
    predictor = learner.predictor.optimiser.lr
    learner.change("lr", 0.5)
    found = [each.optimiser.lr for each in (learner.network, learner.worth, learner.predictor)]
    assert found == [0.5, 0.5, predictor]


def test_the_value_of_novelty_is_annealed_with_the_policy() -> None:
    learner = made(artos.RND, **FEW, anneal=True)
    learner.update(rounds(SPEC), artos.Invoke(1, "t", "update", progress=0.75))
    found = [each.optimiser.lr for each in (learner.network, learner.worth)]
    assert found == pytest.approx([0.25e-3, 0.25e-3])


def test_rnd_adds_what_is_new_to_what_is_paid() -> None:
    """Once statistics count the rows: in units of both, and beyond the end of an episode."""
    learner, batch = made(artos.RND, **FEW, novelty_weight=3.0), rounds(SPEC, far=40.0)
    learner._count(batch, learner._prepare(batch))
    obs = torch.from_numpy(batch.arrays[OBS]).reshape(-1, 3)
    scaled = ((obs - obs.mean(0)) / (obs.std(0, correction=0) + 1e-8)).clamp(-5, 5)
    with torch.no_grad():
        wanted, found = (each({OBS: scaled}) for each in (learner.random, learner.predictor))
        new = ((wanted - found) ** 2).mean(1).reshape(2, 10, 2).numpy()
        worth = learner.worth({OBS: scaled}).reshape(2, 10, 2).numpy()
    sums, each = np.zeros((2, 2)), []
    for step in range(10):
        sums = 0.99 * sums + new[:, step]
        each.append(sums)
    units = new / np.std(each)
    gains = np.zeros((2, 11, 2))
    for step in range(8, -1, -1):
        error = units[:, step + 1] + 0.99 * worth[:, step + 1] - worth[:, step]
        gains[:, step] = error + 0.99 * 0.95 * gains[:, step + 1]
    paid = artos.advantages(
        *(batch.gather(name) for name in (
            "rewards", "values", "bootstraps", "terminations", "truncations")),
        gamma=0.99, lam=0.95,
    )[0]  # fmt: skip
    data = learner._prepare(batch)
    expected = (2 * paid + 3 * gains[:, :10]).reshape(-1)
    np.testing.assert_allclose(data["advantages"], expected, rtol=1e-3, atol=1e-3)
    returns = (gains[:, :10] + worth).reshape(-1)
    np.testing.assert_allclose(data["novelty_returns"], returns, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("spec", [SPEC, PICTURES], ids=["vectors", "pictures"])
def test_what_was_seen_often_is_new_no_more(spec: EnvSpec) -> None:
    module = ActorCritic(spec, (8,), cnn=spec is PICTURES)
    fast = {"predictor_lr": 1e-2, "predictor_share": 1.0, "epochs": 12}
    learner, seen = made(artos.RND, spec, module, **FEW | fast), rounds(spec)
    random = learner.random.values.clone()
    first, *_, last = [learner.update(seen, artos.Invoke(1, "t", "update")) for _ in range(4)]
    assert last["novelty"] < 0.5 * first["novelty"]
    other = learner._prepare(rounds(spec, 1, far=20.0))["novelty"].mean().item()
    assert last["novelty"] < other
    assert torch.equal(random, learner.random.values)


def test_a_restored_rnd_goes_on_bit_for_bit() -> None:
    one, call = made(artos.RND, **FEW), artos.Invoke(1, "t", "update")
    other = made(artos.RND, **FEW)
    for seed in range(2):
        one.update(rounds(SPEC, seed), call)
    for key, value in other.live().items():
        value.copy_(one.live()[key])
    other.restored()
    for learner in (one, other):
        learner.update(rounds(SPEC, 2), call)
    for key, value in one.live().items():
        assert torch.equal(value, other.live()[key]), key


def test_rows_that_only_reset_count_in_no_statistics_of_novelty() -> None:
    learner, batch = made(artos.RND, **FEW), rounds(SPEC)
    batch.names, batch.arrays["valid"] = ("valid",), np.ones(batch.shape, bool)
    batch.arrays["valid"][1, 3] = False
    batch.arrays[OBS][1, 3] = 1e6
    learner.update(batch, artos.Invoke(1, "t", "update"))
    scaled, scale = learner.scaled.module.normalizer, learner.novelty_scale.module
    real = batch.arrays[OBS][batch.arrays["valid"]]
    np.testing.assert_allclose(scaled.mean, real.mean(0), rtol=1e-4, atol=1e-5)
    assert scale.moments[2].item() == len(real)
