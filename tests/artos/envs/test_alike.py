"""What environments make for themselves is found before any is cloned."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from own_things_envs import ALIKE, UNLIKE

from artos.actors.rollout import RolloutActor
from artos.envs import alike
from artos.envs.alike import difference
from artos.envs.make import describe


@pytest.mark.parametrize("case", UNLIKE)
def test_two_that_differ_are_made_anew_in_each_clone(case: str) -> None:
    assert UNLIKE[case][1] in describe(f"own_things_envs:{case}").unlike
    assert prepared(case)._vector is None


@pytest.mark.parametrize("case", ALIKE)
def test_two_that_are_alike_are_cloned(case: str) -> None:
    assert describe(f"own_things_envs:{case}").unlike == ""
    actor = prepared(case)
    assert actor._vector is not None
    actor._vector.close()


def prepared(case: str) -> RolloutActor:
    """An actor as a template prepares it."""
    actor = RolloutActor(f"own_things_envs:{case}", envs=2)
    plan: Any = SimpleNamespace(seed=1, objects=())
    actor.prepare(plan)
    return actor


def test_of_what_is_too_large_to_look_at_nothing_is_said_to_be_alike(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(alike, "_MOST", 100)
    assert difference([object()] * 3, [object()] * 3, "env") == ""
    many = [[number] for number in range(200)]
    assert difference(many, [[*each] for each in many], "env") != ""
