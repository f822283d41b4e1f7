"""What is said of the actions that an algorithm chooses is what its workload takes."""

from __future__ import annotations

import importlib
from typing import Any

import msgspec
import pytest
from spaces_for_tests import MULTI, VECTOR, spec_with

from artos.envs.known import KNOWN
from artos.envs.spec import ActionSpec
from artos.errors import Refused
from artos.policies.choosing import CHOOSES
from triggers.algorithms import BUILT_IN

SPACES = {
    "discrete": ActionSpec("discrete", (), (4,)),
    "multidiscrete": MULTI,
    "box": ActionSpec("box", (2,), (), (-1.0, -1.0), (1.0, 1.0), dtype="float32"),
    "box without bounds": ActionSpec("box", (1,), (), (None,), (1.0,), dtype="float32"),
}


def test_each_algorithm_is_told_of() -> None:
    assert CHOOSES.keys() == BUILT_IN.keys()


@pytest.mark.parametrize("kind", SPACES)
@pytest.mark.parametrize("algorithm", BUILT_IN)
def test_what_an_algorithm_takes(
    algorithm: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec: Any = msgspec.to_builtins(spec_with(SPACES[kind], VECTOR))
    monkeypatch.setitem(KNOWN, "own:env", spec)
    module, _, name = BUILT_IN[algorithm].partition(":")
    build = getattr(importlib.import_module(module), name)
    able = kind.split(maxsplit=1)[0] in CHOOSES[algorithm]
    if able and (kind in CHOOSES[algorithm] or "multidiscrete" in CHOOSES[algorithm]):
        build(env="own:env")
        return
    with pytest.raises(Refused, match=r": run .* on it") as refused:
        build(env="own:env")
    assert f"{algorithm}," not in str(refused.value).partition(": run ")[2].partition(" on it")[0]
