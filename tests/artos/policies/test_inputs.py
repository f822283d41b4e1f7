"""What networks see does not depend on the dtype or the units of the same numbers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from spaces_for_tests import DISCRETE, VECTOR, spec_with

from artos.envs.spec import ActionSpec, Part
from artos.errors import Refused
from artos.policies.acting import ActInfo
from artos.policies.build import Policy
from artos.policies.distributions import CategoricalSampler, DiagGaussian
from artos.policies.fast import FastMlp, make_actor
from artos.policies.flat import named_tensors
from artos.policies.inputs import divisor, doubt, picture
from artos.policies.squashed import Deterministic, SquashedGaussian


@pytest.mark.parametrize("dtype", ["uint8", "int8", "bool", "int64"])
def test_flags_are_seen_as_they_are_in_every_dtype(dtype: str) -> None:
    parts = [Part("observations", (8,), kind, low=0, high=1) for kind in ("float32", dtype)]
    seen = []
    for part in parts:
        spec = spec_with(DISCRETE, part)
        module = Policy().build(spec, 0)
        actor = make_actor(module, spec, 0)
        actor.bind(np.concatenate([t.detach().numpy().ravel() for t in module.parameters()]))
        obs = {"observations": np.eye(8).astype(part.dtype)}
        fast = actor.values(obs, ActInfo()).copy()
        with torch.no_grad():
            seen += [fast, module.value({n: torch.from_numpy(v) for n, v in obs.items()}).numpy()]
    for values in seen[1:]:
        np.testing.assert_allclose(values, seen[0], atol=1e-6)


@pytest.mark.parametrize(
    ("shape", "channels"),
    [
        ((4, 96, 96, 3), 12), ((96, 96, 12), 12), ((96, 96), 1), ((96, 96, 3), 3),
        ((4, 84, 84), 4), ((4, 3, 84, 84), 12), ((7, 7, 3), 0), ((21, 79), 0), ((96,), 0),
    ],
)  # fmt: skip
def test_bytes_of_the_shapes_of_pictures_get_a_cnn(shape: tuple[int, ...], channels: int) -> None:
    part = Part("observations", shape, "uint8", low=0, high=255)
    found = picture(part)
    assert (found.channels if found else 0) == channels
    assert divisor(part) == 255


def test_what_its_bounds_say_is_no_picture_is_none() -> None:
    text = Part("observations", (21, 79, 80), "uint8", low=0, high=127)
    board = Part("observations", (64, 64, 3), "uint8", low=0, high=1)
    assert picture(text) is None
    assert picture(board) is None
    assert divisor(board) == 1
    floats = Part("observations", (3, 84, 84), "float32", low=0, high=1)
    assert picture(floats) is not None
    assert divisor(floats) == 1


def _box(low: tuple[float, ...], high: tuple[float, ...]) -> ActionSpec:
    return ActionSpec("box", (len(low),), (), low, high, dtype="float32")


@pytest.mark.parametrize(
    ("low", "high"), [((1000.0, 0.0), (1100.0, 1.0)), ((-1e-3, -1e-3), (1e-3, 1e-3))]
)
def test_a_gaussian_is_in_units_of_the_bounds(
    low: tuple[float, ...], high: tuple[float, ...]
) -> None:
    usual, other = (
        spec_with(_box((-1.0, -1.0), (1.0, 1.0)), VECTOR),
        spec_with(_box(low, high), VECTOR),
    )
    obs = {"observations": np.random.default_rng(0).normal(size=(16, 5)).astype(np.float32)}
    acted = []
    for spec in (usual, other):
        module = Policy().build(spec, 0)
        actor = make_actor(module, spec, 0)
        assert isinstance(actor, FastMlp)
        tensors = named_tensors(module).values()
        actor.bind(np.concatenate([t.detach().numpy().ravel() for t in tensors]))
        found = {name: value.copy() for name, value in actor.act(obs, ActInfo()).items()}
        with torch.no_grad():
            rated = module.evaluate(
                {n: torch.from_numpy(v) for n, v in obs.items()},
                torch.from_numpy(found["actions"]),
            )
        np.testing.assert_allclose(rated[0], found["log_probs"], atol=1e-4)
        acted.append((found, rated[1].numpy()))
    (one, entropy), (two, same) = acted
    np.testing.assert_array_equal(one["log_probs"], two["log_probs"])
    np.testing.assert_array_equal(entropy, same)
    middle, reach = (np.array(high) + low) / 2, (np.array(high) - low) / 2
    np.testing.assert_allclose((two["actions"] - middle) / reach, one["actions"], atol=1e-5)


def test_a_fixed_dimension_has_no_part_in_anything() -> None:
    spec = spec_with(_box((-1.0, 0.0), (1.0, 0.0)), VECTOR)
    obs = {"observations": torch.zeros(4, 5)}
    head = Policy().build(spec, 0).head
    assert isinstance(head, DiagGaussian)
    actions, logs = head.sample(torch.zeros(4, 2))
    assert torch.equal(actions[:, 1], torch.zeros(4))
    torch.testing.assert_close(head.evaluate(torch.zeros(4, 2), actions)[0], logs)
    alone = DiagGaussian((1,))
    torch.testing.assert_close(
        head.evaluate(torch.zeros(4, 2), actions)[1],
        alone.evaluate(torch.zeros(4, 1), actions[:, :1])[1],
    )
    squashed, deterministic = SquashedGaussian(spec), Deterministic(spec)
    unit, logs = squashed.sample(obs)
    assert torch.equal(unit[:, 1], torch.zeros(4))
    assert logs.isfinite().all()
    assert torch.equal(deterministic(obs)[:, 1], torch.zeros(4))
    assert squashed.bounds.unit(actions).isfinite().all()


@pytest.mark.parametrize(
    ("low", "high", "says"),
    [((0.0,), (0.0,), "nothing to choose"), ((1.0,), (0.0,), "swap them"),
     ((1e6,), (1e6 + 1,), "too few numbers")],
)  # fmt: skip
def test_bounds_without_a_choice_are_refused(
    low: tuple[float, ...], high: tuple[float, ...], says: str
) -> None:
    with pytest.raises(Refused, match=says):
        Policy().build(spec_with(_box(low, high), VECTOR), 0)


def test_noise_ahead_is_bounded_by_bytes_and_the_stream_is_the_same() -> None:
    ours, whole = (
        CategoricalSampler(2_000, 4, np.random.default_rng(0), ahead) for ahead in (None, 256)
    )
    assert ours._noise.nbytes <= 2**20 < whole._noise.nbytes
    for _ in range(40):
        out = np.zeros((4, 2_000), np.float32)
        np.testing.assert_array_equal(ours(out, {})[0], whole(out, {})[0])


@pytest.mark.parametrize(
    ("part", "says"),
    [
        (Part("observations", (3,), "int64", low=0, high=2.0**24), ""),
        (Part("observations", (3,), "int64", low=-(2.0**40), high=0), "float32, which rounds"),
        (Part("observations", (3,), "uint32", low=0, high=2.0**32), "subtract an offset"),
        (Part("observations", (3,), "int32"), ""),
        (Part("observations", (), "int64", sizes=(10_000,)), ""),
        (Part("observations", (), "int64", sizes=(10_001,)), "10,001 categories"),
    ],
)
def test_what_is_odd_also_when_scaled(part: Part, says: str) -> None:
    said = doubt(part, cnn=True, scaled=True)
    assert says in said if says else not said
