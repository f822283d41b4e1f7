"""One observation or a batch of them, and everything that is neither."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from msgspec.structs import replace
from spaces_for_tests import DISCRETE, MIXED, STACKED, VECTOR, random_obs, spec_with

from artos.envs.spec import EnvSpec, Part
from artos.errors import Refused
from artos.trained.observations import batch_of

SPECS = [spec_with(DISCRETE, VECTOR), spec_with(DISCRETE, STACKED), spec_with(DISCRETE, *MIXED)]


def as_shown(spec: EnvSpec, parts: dict[str, Any]) -> Any:
    """Observations as the environment shows them."""
    if not spec.dict_observations:
        return parts["observations"]
    return {name.removeprefix("observations."): part for name, part in parts.items()}


@pytest.mark.parametrize("spec", SPECS)
def test_a_batch_and_each_of_its_rows(spec: EnvSpec) -> None:
    parts = random_obs(spec, 6, seed=1)
    batch, single = batch_of(as_shown(spec, parts), spec)
    assert not single
    for row in range(6):
        alone, single = batch_of(as_shown(spec, {n: p[row] for n, p in parts.items()}), spec)
        assert single
        for part in spec.parts:
            np.testing.assert_array_equal(alone[part.name], batch[part.name][row : row + 1])
            assert alone[part.name].dtype == part.dtype


def test_dicts_may_be_nested_or_dotted() -> None:
    parts = (Part("observations.a.left", (2,), "float32"), Part("observations.b", (), "int64"))
    spec = spec_with(DISCRETE, *parts)
    left = np.ones(2)
    for obs in ({"a": {"left": left}, "b": 3}, {"a.left": left, "b": 3}):
        found, single = batch_of(obs, spec)
        assert single
        np.testing.assert_array_equal(found["observations.a.left"], [[1, 1]])


def test_numbers_are_cast_where_nothing_is_lost() -> None:
    spec = SPECS[0]
    for obs in ([0, 1, 2, 3, 4], np.arange(5), np.arange(5.0), torch.arange(5.0)):
        found, _ = batch_of(obs, spec)
        np.testing.assert_array_equal(found["observations"], [[0, 1, 2, 3, 4]], strict=False)
        assert found["observations"].dtype == np.float32


@pytest.mark.parametrize(
    ("obs", "told"),
    [
        (np.zeros(4), r"has shape \(4,\); give \(5,\), or \(B, 5\) for a batch"),
        (np.zeros((2, 3, 5)), r"has shape \(2, 3, 5\)"),
        (np.zeros((0, 5)), r"has shape \(0, 5\)"),
        (3.0, r"has shape \(\)"),
        (np.array([0, 0, np.nan, 0, 0]), "holds nan: NaN or infinity"),
        (np.array([0, 0, 1e39, 0, 0]), r"holds 1e\+39: .*too large for float32"),
        (np.zeros(5, complex), "has dtype complex128; the environment shows float32"),
        ({"a": np.zeros(5)}, r"observations is missing\n.*observations.a is none of observations"),
    ],
)
def test_what_is_no_observation(obs: Any, told: str) -> None:
    with pytest.raises(Refused, match=told):
        batch_of(obs, SPECS[0])


def test_texts_are_left_out() -> None:
    parts = (Part("observations.a", (2,), "float32"),)
    spec = replace(spec_with(DISCRETE, *parts), left_out=("observations.what",))
    found, single = batch_of({"a": np.ones(2), "what": "go"}, spec)
    assert single
    assert found.keys() == {"observations.a"}


def test_a_scaled_picture_is_no_picture() -> None:
    """Cast to bytes it would be black."""
    with pytest.raises(Refused, match=r"float32 \(0.5 among them\); the environment shows uint8"):
        batch_of(np.full((4, 84, 84), 0.5, np.float32), SPECS[1])


def test_all_faults_of_a_dict_at_once() -> None:
    parts = as_shown(SPECS[2], random_obs(SPECS[2], 2, seed=1))
    parts["room"] = np.array([3, 7])
    parts["ram"] = parts["ram"][0, :3]
    del parts["grid"]
    with pytest.raises(Refused) as refused:
        batch_of(parts, SPECS[2])
    told = "\n".join(refused.value.faults)
    assert len(refused.value.faults) == 3
    for words in ("grid is missing", "room goes from 3 to 7", "ram has shape (3,)"):
        assert words in told


def test_parts_of_different_sizes() -> None:
    parts = as_shown(SPECS[2], random_obs(SPECS[2], 2, seed=1))
    for other in (parts["grid"][0], parts["grid"][:1]):
        with pytest.raises(Refused, match="some parts are one observation and others a batch"):
            batch_of({**parts, "grid": other}, SPECS[2])
