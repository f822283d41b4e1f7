"""Objects beside the weights: of their own size and version, and nothing else can be published."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from artos.buffer.model_block import ModelBlock, ObjectSpec, block_bytes
from artos.errors import BadObject, NotFinite
from artos.learners.publisher import Publisher
from artos.specs.keys import ArraySpec, ObjectKey

KEYS = (
    ObjectKey("noise_scale"),
    ObjectKey("mean", (2, 3), "float32"),
    ObjectKey("seen", (), "int64"),
)
WEIGHTS = ObjectSpec.sized("model_param", [ArraySpec("params", (1_000_000,))], 3)


def spec_of(key: ObjectKey) -> ObjectSpec:
    return ObjectSpec.sized(key.name, [ArraySpec("value", key.shape, key.dtype)], 1)


@pytest.fixture
def model(tmp_path: Path) -> ModelBlock:
    return ModelBlock.create(tmp_path / "model", [WEIGHTS, *map(spec_of, KEYS)])


@pytest.fixture
def publish(model: ModelBlock) -> Publisher:
    return Publisher(KEYS, model.objects)


def test_each_object_has_versions_of_its_own(model: ModelBlock, publish: Publisher) -> None:
    publish("noise_scale", 3)
    publish("noise_scale", 4.5)
    publish("mean", [[1, 2, 3], [4, 5, 6]])
    versions = {name: region.version for name, region in model.objects.items()}
    assert versions == {"model_param": -1, "noise_scale": 1, "mean": 0, "seen": -1}
    assert publish.newest("noise_scale") == 4.5
    np.testing.assert_array_equal(publish.newest("mean"), np.array([[1, 2, 3], [4, 5, 6]]))
    assert publish.newest("seen") is None


def test_an_invocation_that_is_killed_leaves_nothing(model: ModelBlock) -> None:
    publish = Publisher(KEYS, model.objects, model["model_param"])
    publish("seen", 1)
    for _ in range(2):  # killed, and repeated by the process that comes after it
        publish = Publisher(KEYS, model.objects, model["model_param"])
        publish.begin()
        publish("seen", 2)
        assert publish.newest("seen") == 2
        assert model["seen"].version == 0
    publish.weights({"params": np.zeros(1_000_000, np.float32)}, firing=3)
    assert (model["seen"].version, model["model_param"].version) == (1, 0)
    publish.end()
    assert (model["seen"].version, publish.newest("seen")) == (1, 2)


def test_without_weights_it_is_seen_at_the_end(model: ModelBlock, publish: Publisher) -> None:
    publish.begin()
    publish("seen", 1)
    publish("seen", 2)
    assert model["seen"].version == 0, "a version of its own, which has no other place"
    publish.end()
    assert (model["seen"].version, publish.newest("seen")) == (1, 2)


def test_weights_that_are_not_finite_leave_no_object_either(model: ModelBlock) -> None:
    publish = Publisher(KEYS, model.objects, model["model_param"])
    publish.begin()
    publish("seen", 1)
    with pytest.raises(NotFinite):
        publish.weights({"params": np.full(1_000_000, np.nan, np.float32)})
    assert model["seen"].version == -1


def test_an_object_takes_the_room_of_its_value_not_of_the_weights() -> None:
    assert block_bytes([WEIGHTS, *map(spec_of, KEYS)]) - block_bytes([WEIGHTS]) < 100_000


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("nois", 1.0, "not among the learner's objects.*add ObjectKey"),
        ("model_param", 1.0, "not among the learner's objects"),
        ("mean", np.zeros((3, 2)), r"its shape is \(3, 2\), but \(2, 3\) is declared"),
        ("noise_scale", [1.0], r"its shape is \(1,\), but \(\) is declared"),
    ],
)
@pytest.mark.parametrize("here", [True, False], ids=["in a run", "at registration"])
def test_what_is_not_declared_like_this_is_refused(
    name: str, value: object, words: str, here: bool, model: ModelBlock
) -> None:
    publish = Publisher(KEYS, model.objects if here else {})
    with pytest.raises(BadObject, match=words):
        publish(name, value)  # type: ignore[arg-type]
    assert model["mean"].version == model["noise_scale"].version == -1


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_nothing_that_is_not_finite_is_published(
    value: float, model: ModelBlock, publish: Publisher
) -> None:
    with pytest.raises(NotFinite, match="noise_scale"):
        publish("noise_scale", value)
    assert model["noise_scale"].version == -1


def test_large_values_are_finite_though_their_sum_is_not(
    model: ModelBlock, publish: Publisher
) -> None:
    large = np.full((2, 3), 3e38, np.float32)
    publish("mean", large)
    publish("mean", large * np.array([[1], [-1]], np.float32))
    np.testing.assert_array_equal(publish.newest("mean"), large * np.array([[1], [-1]]))
    large[1, 1] = np.nan
    with pytest.raises(NotFinite):
        publish("mean", large)


def test_who_comes_after_a_crash_goes_on_from_there(model: ModelBlock, publish: Publisher) -> None:
    publish("seen", 7)
    again = Publisher(KEYS, model.objects)
    assert again.newest("seen") == 7
    again("seen", 8)
    assert (model["seen"].version, again.newest("seen")) == (1, 8)


@pytest.mark.parametrize(
    ("key", "words"),
    [
        (ObjectKey("model_param"), "is the weights, which every learner publishes"),
        (ObjectKey("x", (0,)), "has a size that is not positive"),
        (ObjectKey("x", (), "object"), "cannot be stored in shared memory"),
    ],
)
def test_what_cannot_be_an_object_says_why(key: ObjectKey, words: str) -> None:
    assert any(words in fault for fault in key.faults())
    assert all(key.faults() == [] for key in KEYS)
