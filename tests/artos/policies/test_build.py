from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from spaces_for_tests import (
    ACTIONS,
    BOX,
    DISCRETE,
    FLAT,
    MIXED,
    MULTI,
    STACKED,
    VECTOR,
    random_obs,
    spec_with,
)
from torch import Tensor, nn

from artos.envs.spec import ActionSpec, EnvSpec, Part
from artos.errors import Refused
from artos.policies.acting import ActInfo, Declared, output_keys
from artos.policies.build import Policy, build_policy, check_policy, fake_observations
from artos.policies.encoders import NatureCnn
from artos.specs.keys import DataKey


def tensors(spec: EnvSpec, batch: int) -> dict[str, Tensor]:
    return {k: torch.from_numpy(v) for k, v in random_obs(spec, batch, 0).items()}


@pytest.mark.parametrize("parts", [(VECTOR,), FLAT, (STACKED,), MIXED])
@pytest.mark.parametrize("actions", ACTIONS, ids=[a.kind for a in ACTIONS])
def test_our_policy_fits_every_space(actions: ActionSpec, parts: tuple[Part, ...]) -> None:
    spec = spec_with(actions, *parts)
    assert check_policy(Policy().build(spec, 0), spec) == []


def test_the_seed_decides_the_weights_and_leaves_the_global_stream_alone() -> None:
    spec = spec_with(DISCRETE, VECTOR)
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    one, same, other = (Policy().build(spec, seed) for seed in (1, 1, 2))
    assert torch.equal(torch.rand(2), expected)
    pairs = list(zip(one.parameters(), same.parameters(), other.parameters(), strict=True))
    assert all(torch.equal(a, b) for a, b, _ in pairs)
    assert not all(torch.equal(a, c) for a, _, c in pairs)


def test_the_first_policy_is_nearly_uniform_and_its_layers_orthogonal() -> None:
    module = Policy().build(spec_with(DISCRETE, VECTOR), 0)
    out, _ = module(tensors(module.spec, 8))
    assert out.abs().max() < 0.1
    weight = module.body.weight1[0]
    torch.testing.assert_close(weight @ weight.T, 2 * torch.eye(64), atol=1e-4, rtol=0)


def test_policy_and_value_networks_share_nothing() -> None:
    module = Policy().build(spec_with(DISCRETE, VECTOR), 0)
    module.value(tensors(module.spec, 8)).sum().backward()
    for weight in module.body.parameters():
        assert float(weight.grad[0].abs().sum()) == 0
        assert float(weight.grad[1].abs().sum()) > 0


@pytest.mark.parametrize("shape", [(4, 84, 84), (84, 84, 3), (3, 50, 70)])
def test_the_cnn_computes_what_plain_torch_layers_compute(shape: tuple[int, ...]) -> None:
    part = Part("observations", shape, "uint8")
    net = NatureCnn(part)
    image = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (2, *shape), dtype=np.uint8))
    x = (image.permute(0, 3, 1, 2) if shape[-1] == 3 else image).float() / 255
    for conv, stride in ((net.first, 4), (net.second, 2), (net.third, 1)):
        weight = conv.weight.permute(0, 3, 1, 2).contiguous()
        x = nn.functional.conv2d(x.contiguous(), weight, conv.bias, stride).relu()
    # The last layer reads rows, columns, channels in this order.
    expected = nn.functional.linear(
        x.permute(0, 2, 3, 1).flatten(1), net.last.weight, net.last.bias
    )
    torch.testing.assert_close(net(image), expected.relu(), atol=1e-4, rtol=1e-4)


def test_pictures_keep_their_values_when_acting() -> None:
    spec = spec_with(DISCRETE, STACKED)
    obs = tensors(spec, 2)
    before = obs["observations"].clone()
    Policy().build(spec, 0).act(obs, ActInfo())
    assert torch.equal(obs["observations"], before)


def test_autocast_rounds_the_body_but_not_the_head() -> None:
    spec = spec_with(DISCRETE, STACKED)
    module = Policy().build(spec, 0)
    obs, actions = tensors(spec, 4), torch.tensor([0, 1, 2, 3])
    exact = module.evaluate(obs, actions)
    with torch.autocast("cpu", torch.bfloat16):
        rounded = module.evaluate(obs, actions)
    for a, b in zip(exact, rounded, strict=True):
        assert b.dtype == torch.float32
        torch.testing.assert_close(a, b, atol=0.05, rtol=0.05)


@pytest.mark.parametrize(
    ("policy", "says"),
    [
        (Policy(kind="cnn"), "shows no picture"),
        (Policy(hidden=(64, 0)), "1 to 65536 units"),
        (Policy(kind="lstm"), "use auto, mlp or cnn"),  # type: ignore[arg-type]
    ],
)
def test_settings_that_do_not_fit_are_refused(policy: Policy, says: str) -> None:
    with pytest.raises(Refused, match=says):
        policy.build(spec_with(DISCRETE, VECTOR), 0)


def test_an_mlp_can_be_asked_for_on_pictures() -> None:
    spec = spec_with(DISCRETE, Part("observations", (36, 36, 1), "uint8"))
    assert check_policy(Policy(kind="mlp").build(spec, 0), spec) == []


class Fake(nn.Module):
    """Returns what it is told."""

    def __init__(self, acted: Any, evaluated: Any = None) -> None:
        super().__init__()
        self.acted, self.evaluated = acted, evaluated

    def act(self, obs: dict[str, Tensor], info: ActInfo) -> Any:
        if isinstance(self.acted, Exception):
            raise self.acted
        return self.acted

    def evaluate(self, obs: dict[str, Tensor], actions: Tensor) -> Any:
        return self.evaluated


def out(actions: Any, rows: int = 3, dtype: torch.dtype = torch.float32) -> dict[str, Any]:
    return {
        "actions": actions,
        "log_probs": torch.zeros(rows, dtype=dtype),
        "values": torch.zeros(rows),
    }


FINE = (torch.zeros(3), torch.zeros(3), torch.zeros(3))


@pytest.mark.parametrize(
    ("module", "actions", "says"),
    [
        ("text", DISCRETE, "must be a torch.nn.Module"),
        (nn.Linear(1, 1), DISCRETE, r"no method act\(obs, info\)"),
        (Fake(ValueError("mat1 and mat2")), DISCRETE, r"ValueError: mat1.*observations \(3, 5\)"),
        (Fake(torch.zeros(3)), DISCRETE, "must return a dict of tensors, not Tensor"),
        (Fake({"actions": torch.zeros(3)}), DISCRETE, "a tensor under 'values', or leave it out"),
        (Fake(out(torch.zeros(3, 1).long())), DISCRETE, r"shape \(3, 1\); return \(3,\)"),
        (Fake(out(torch.zeros(3))), DISCRETE, "'actions'] is torch.float32; return torch.int64"),
        (Fake(out(torch.full((3,), 4))), DISCRETE, r"goes from 4 to 4.*takes 0 to \[3\]"),
        (Fake(out(torch.full((3,), -1))), DISCRETE, "goes from -1"),
        (Fake(out(torch.full((3, 2, 2), 2))), MULTI, r"takes 0 to \[1, 2, 4, 1\]"),
        (Fake(out(torch.zeros(3, 2, 1).long())), BOX, "return torch.float32"),
        (Fake(out(torch.full((3, 2, 1), torch.nan))), BOX, "NaN"),
        (Fake(out(torch.zeros(3).long(), 2)), DISCRETE, r"'log_probs'\] has shape \(2,\)"),
        (Fake(out(torch.zeros(3).long(), 3, torch.float64)), DISCRETE, "return torch.float32"),
        (Fake(out(torch.zeros(3).long()), FINE[0]), DISCRETE, "must return a tuple"),
        (Fake(out(torch.zeros(3).long()), (*FINE[:2], torch.zeros(3, 1))), DISCRETE, "values has"),
    ],
)
def test_a_policy_that_does_not_fit_is_told_what_to_change(
    module: Any, actions: ActionSpec, says: str
) -> None:
    import re  # noqa: PLC0415

    faults = check_policy(module, spec_with(actions, VECTOR))
    assert any(re.search(says, fault) for fault in faults), faults


def test_a_users_builder_is_called_with_the_description() -> None:
    spec = spec_with(DISCRETE, VECTOR)
    fits = Fake(out(torch.zeros(3).long()), FINE)
    assert build_policy(lambda given: fits if given == spec else Fake(None), spec, 0) is fits


class Chooser(nn.Module):
    """A policy without a critic, whose rows hold what it saw in each choice."""

    outputs = (DataKey("scores", (4,)), "doubt")

    def act(self, obs: dict[str, Tensor], info: ActInfo) -> Any:
        scores = obs["observations"][:, :4]
        return {"actions": scores.argmax(1), "scores": scores, "doubt": scores.std(1)}


CHOOSER = Declared(output_keys(Chooser.outputs))


def test_a_policy_gives_what_it_declares_and_nothing_else_is_asked_for() -> None:
    spec = spec_with(DISCRETE, VECTOR)
    found = Declared.by(Chooser, lambda: pytest.fail("a class need not be built"))
    assert found == CHOOSER == Declared((DataKey("scores", (4,)), DataKey("doubt")))
    assert check_policy(Chooser(), spec, found) == []
    more = (*found.outputs, DataKey("values"), DataKey("scores", (5,)))
    faults = check_policy(Chooser(), spec, Declared(more))
    assert len(faults) == 2
    assert "a tensor under 'values', or leave it out of the policy's outputs" in faults[0]
    assert "shape (3, 4); return (3, 5)" in faults[1]
    other = Declared((DataKey("doubt", (), "int64"),))
    assert "is torch.float32; return torch.int64" in check_policy(Chooser(), spec, other)[0]


class Remembering(nn.Module):
    """A policy whose memory is as wide as it is built."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    @property
    def state(self) -> tuple[DataKey, ...]:
        return (DataKey("memory", (self.width,)),)

    def act(self, obs: dict[str, Tensor], info: ActInfo) -> Any:
        rows = len(obs["observations"])
        fine = {name: torch.zeros(rows) for name in ("log_probs", "values")}
        return {"actions": torch.zeros(rows).long(), "memory": info.state["memory"] + 1, **fine}


class Forgetful(Remembering):
    """Returns less memory than it was given."""

    def act(self, obs: dict[str, Tensor], info: ActInfo) -> Any:
        found = super().act(obs, info)
        return {**found, "memory": found["memory"][:, 1:]}


def test_outputs_are_found_however_a_policy_is_given() -> None:
    def build() -> nn.Module:
        return Chooser()

    assert Declared.by(partial(Chooser, 3), build) == CHOOSER
    assert Declared.by(build, build) == Declared.by(lambda spec: None, build) == CHOOSER
    assert Declared.by(Fake, build) == Declared.by(Policy(), build) == Declared()
    assert Declared.by(None, build) == Declared()


def test_recurrent_state_is_declared_and_checked() -> None:
    wide = Declared.by(Remembering, partial(Remembering, 7))
    assert wide == Declared(state=(DataKey("memory", (7,)),))
    spec = spec_with(DISCRETE, VECTOR)
    assert check_policy(Remembering(7), spec, wide) == []
    assert "has shape (3, 6); return (3, 7)" in check_policy(Forgetful(7), spec, wide)[0]


def test_fake_observations_have_the_stored_shapes_and_dtypes() -> None:
    spec = spec_with(DISCRETE, *MIXED)
    for part in spec.parts:
        value = fake_observations(spec, 2)[part.name]
        assert tuple(value.shape) == (2, *part.value_shape)
        assert str(value.dtype) == f"torch.{part.dtype}"
