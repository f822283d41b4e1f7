"""How many replicas all learners have, or each by its name; read as users write it."""

from __future__ import annotations

from typing import Any

import pytest

from artos.errors import Refused
from artos.specs.by_learner import by_learner
from artos.specs.replicas import ReplicasSetting
from artos.specs.settings import convert


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (2, {"policy": 2, "model": 2}),
        ("2", {"policy": 2, "model": 2}),
        ("model=3", {"policy": 1, "model": 3}),
        (" policy = 2, model = 3 ", {"policy": 2, "model": 3}),
        ('{"policy": 2}', {"policy": 2, "model": 1}),
        ({"policy": 2}, {"policy": 2, "model": 1}),
    ],
)
def test_each_learner_has_its_number(given: Any, wanted: dict[str, int]) -> None:
    found = convert("learners", given, ReplicasSetting)
    assert by_learner(found, ("policy", "model"), 1) == wanted


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("model=2,model=3", "names model twice: write a number, or one for each"),
        ("{model", "malformed"),
        ("two", "write a whole number"),
        ({"model": "two"}, r"learners\['model'\]='two': write a whole number"),
        ([2], "expected `int`"),
    ],
)
def test_what_is_none_is_refused(given: Any, why: str) -> None:
    with pytest.raises(Refused, match=why):
        convert("learners", given, ReplicasSetting)
