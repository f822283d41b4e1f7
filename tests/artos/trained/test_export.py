"""Exported programs act as the network does, for batches of any size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from spaces_for_tests import (
    ACTIONS,
    DISCRETE,
    FLAT,
    MIXED,
    STACKED,
    VECTOR,
    random_obs,
    spec_with,
)
from torch import Tensor, nn

from artos.envs.spec import ActionSpec, EnvSpec, Part
from artos.envs.stepper import action_writer
from artos.errors import Refused
from artos.policies.acting import ActInfo
from artos.policies.actor_critic import ActorCritic
from artos.policies.build import Policy
from artos.policies.plain import PlainActorCritic
from artos.specs.keys import MASK_KEY
from artos.trained.export import _Clipped, export

SHIFTED = ActionSpec("discrete", (), (4,), start=(5,))
GRID = ActionSpec("multidiscrete", (2, 2), (2, 3, 5, 2), start=(0, 1, 2, 0))
WIDE = ActionSpec("box", (2,), (), (-0.01, None), (None, 0.02), dtype="float64")
BINARY = ActionSpec("multidiscrete", (3,), (2, 2, 2), dtype="int8")
LATER = (
    Part("observations.room", (), "int64", sizes=(7,), start=(3,)),
    Part("observations.doors", (2,), "int64", sizes=(3, 4), start=(1, -2)),
)
CASES = [
    *((actions, (VECTOR,)) for actions in (*ACTIONS, SHIFTED, GRID, WIDE, BINARY)),
    (DISCRETE, LATER), (DISCRETE, (msgspec.structs.replace(LATER[0], name="observations"),)),
    (DISCRETE, FLAT), (WIDE, MIXED), (DISCRETE, (STACKED,)),
    (DISCRETE, (msgspec.structs.replace(VECTOR, name="observations.observations"), FLAT[1])),
]  # fmt: skip


def policy(spec: EnvSpec) -> ActorCritic:
    built = Policy(hidden=(16,)).build(spec, seed=1)
    torch.manual_seed(2)
    with torch.no_grad():
        for weight in built.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
    return built


def as_given(spec: EnvSpec, obs: dict[str, Any]) -> Any:
    """Observations as the program takes them: categories by the environment's own numbers."""
    for part in (part for part in spec.parts if part.start):
        first = np.array(part.start).reshape(part.shape)
        kind = torch.from_numpy if isinstance(obs[part.name], Tensor) else np.asarray
        obs = {**obs, part.name: obs[part.name] + kind(first)}
    if not spec.dict_observations:
        return obs["observations"]
    return {name.removeprefix("observations."): part for name, part in obs.items()}


def expected(trained: ActorCritic, obs: dict[str, Tensor]) -> Any:
    with torch.inference_mode():
        acted = trained.act(obs, ActInfo(greedy=True))["actions"].numpy()
    return action_writer(trained.spec.actions)(acted)


@pytest.mark.parametrize(("actions", "parts"), CASES)
def test_a_program_of_torch(actions: ActionSpec, parts: tuple[Part, ...], tmp_path: Path) -> None:
    trained = policy(spec_with(actions, *parts))
    export(PlainActorCritic(trained), trained.spec, tmp_path / "policy.pt2")
    program = torch.export.load(tmp_path / "policy.pt2").module()
    for batch in (1, 2, 33):
        arrays = random_obs(trained.spec, batch, seed=batch)
        obs = {name: torch.from_numpy(part) for name, part in arrays.items()}
        found, wanted = program(as_given(trained.spec, obs)).numpy(), expected(trained, obs)
        np.testing.assert_allclose(found, wanted, atol=1e-5, rtol=1e-4)
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_clipped_actions_are_within_bounds_of_the_spaces_own_dtype(dtype: str) -> None:
    spec = ActionSpec("box", (2,), (), (-0.1, None), (0.3, 1e-3), dtype=dtype)
    far = torch.tensor([[9.0, 9.0], [-9.0, -9.0]])
    found = _Clipped(spec)(far).numpy()
    np.testing.assert_array_equal(found, action_writer(spec)(far.numpy()), strict=True)
    if dtype == "float64":
        assert (found >= [-0.1, -np.inf]).all()
        assert (found <= [0.3, 1e-3]).all()


@pytest.mark.long
@pytest.mark.parametrize(
    ("actions", "parts"), [(SHIFTED, (VECTOR,)), (WIDE, MIXED), (BINARY, LATER)]
)
def test_a_program_of_onnx(actions: ActionSpec, parts: tuple[Part, ...], tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    trained = policy(spec_with(actions, *parts))
    export(PlainActorCritic(trained), trained.spec, tmp_path / "policy.onnx")
    session = runtime.InferenceSession(tmp_path / "policy.onnx")
    assert [each.name for each in session.get_outputs()] == ["actions"]
    assert [path.name for path in tmp_path.iterdir()] == ["policy.onnx"]
    for batch in (1, 2, 33):
        arrays = random_obs(trained.spec, batch, seed=batch)
        obs = {name: torch.from_numpy(part) for name, part in arrays.items()}
        given = as_given(trained.spec, arrays)
        (found,) = session.run(None, given if isinstance(given, dict) else {"observations": given})
        wanted = expected(trained, obs)
        np.testing.assert_allclose(found, wanted, atol=1e-5, rtol=1e-4)
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)


@pytest.mark.parametrize("actions", [DISCRETE, GRID])
def test_a_program_of_onnx_keeps_to_the_mask(actions: ActionSpec, tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    trained = policy(spec_with(actions, VECTOR).masked_by_info())
    export(PlainActorCritic(trained), trained.spec, tmp_path / "policy.onnx")
    arrays = random_obs(trained.spec, 33, seed=3)
    greedy = expected(trained, {name: torch.from_numpy(part) for name, part in arrays.items()})
    allowed = np.random.default_rng(3).random(arrays[MASK_KEY].shape) < 0.3
    allowed[:, np.cumsum((0, *actions.sizes[:-1]))] = True
    arrays[MASK_KEY] = allowed
    wanted = expected(trained, {name: torch.from_numpy(part) for name, part in arrays.items()})
    given = {"observations": arrays["observations"], "action_mask": allowed}
    (found,) = runtime.InferenceSession(tmp_path / "policy.onnx").run(None, given)
    np.testing.assert_array_equal(found, wanted)
    assert (found != greedy).any(), "nothing was forbidden that would have been chosen"


class Own(nn.Module):
    """A user's policy that explores, and does as it likes with the size of a batch."""

    outputs = ()

    def __init__(self, width: int = 5, choices: int = 4) -> None:
        super().__init__()
        self.layers = nn.Linear(width, choices)

    def act(self, obs: dict[str, Tensor], info: ActInfo) -> dict[str, Tensor]:
        best = self.layers(obs["observations"].reshape(len(obs["observations"]), -1)).argmax(1)
        epsilon = 0.0 if info.greedy else 1.0
        return {"actions": torch.where(torch.rand(best.shape) < epsilon, 0, best)}


class Unexportable(Own):
    """Leaves torch."""

    def act(self, obs: dict[str, Tensor], info: ActInfo) -> dict[str, Tensor]:
        found = super().act(obs, info)["actions"]
        return {"actions": torch.tensor([int(action) for action in found.tolist()])}


def test_a_network_of_the_users_own(tmp_path: Path) -> None:
    module = Own()
    export(module, spec_with(DISCRETE, VECTOR), tmp_path / "policy.pt2")
    program = torch.export.load(tmp_path / "policy.pt2").module()
    obs = torch.randn(100, 5)
    assert program(obs).tolist() == module.layers(obs).argmax(1).tolist()


@pytest.mark.parametrize("name", ["policy.pt", "policy", "nowhere/policy.pt2"])
def test_files_that_cannot_be_written(name: str, tmp_path: Path) -> None:
    told = "there is no folder" if "/" in name else r"ends in \.pt2 or \.onnx"
    with pytest.raises(Refused, match=told):
        export(Own(), spec_with(DISCRETE, VECTOR), tmp_path / name)


def test_what_cannot_be_exported_is_refused_with_torchs_reason(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="Unexportable cannot be exported: "):
        export(Unexportable(), spec_with(DISCRETE, VECTOR), tmp_path / "policy.pt2")
    assert list(tmp_path.iterdir()) == []


def test_the_extra_for_onnx_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(Refused, match=r"onnx and onnxscript: pip install 'artos\[onnx\]'"):
        export(Own(), spec_with(DISCRETE, VECTOR), tmp_path / "policy.onnx")
