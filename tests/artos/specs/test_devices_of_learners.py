"""A device for all learners, or one for each by its name; read as users write it."""

from __future__ import annotations

from typing import Any

import pytest

from artos.errors import Refused
from artos.specs.by_learner import by_learner, unknown
from artos.specs.devices import read, sought
from artos.specs.settings import convert
from artos.specs.workload import DeviceSetting

LEARNERS = ("policy", "model")


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("cuda:1", {"policy": "cuda:1", "model": "cuda:1"}),
        ("policy=cuda:0,model=pool", {"policy": "cuda:0", "model": "pool"}),
        (" model = pool ", {"policy": "cpu", "model": "pool"}),
        ('{"policy": "auto"}', {"policy": "auto", "model": "cpu"}),
        ({"policy": "pool"}, {"policy": "pool", "model": "cpu"}),
    ],
)
def test_each_learner_has_its_device(given: Any, wanted: dict[str, str]) -> None:
    assert by_learner(convert("device", given, DeviceSetting), LEARNERS, "cpu") == wanted


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("policy=cpu,policy=pool", "names policy twice"),
        ({"policy": 1}, "expected `str`, got `int`"),
        (3, "expected"),
        ("{policy", "malformed"),
    ],
)
def test_what_is_none_is_refused(given: Any, why: str) -> None:
    with pytest.raises(Refused, match=why):
        read(given)


def test_names_of_no_learner_are_told() -> None:
    (told,) = unknown("device", {"polcy": "pool", "model": "cpu"}, LEARNERS)
    assert (
        told
        == "device names 'polcy', which is no learner: did you mean policy? (have policy, model)"
    )
    assert [*unknown("device", "pool", LEARNERS)] == []


@pytest.mark.parametrize(
    ("setting", "device"),
    [
        ("cpu", "cpu"), ("pool", "pool"), ("policy=cpu,model=cuda:1", "cuda:1"),
        ({"policy": "cpu", "model": "cpu"}, "cpu"), (["cuda"], "cpu"),
    ],
)  # fmt: skip
def test_a_machine_needs_the_first_that_is_not_the_cpu(setting: Any, device: str) -> None:
    assert sought(setting) == device
