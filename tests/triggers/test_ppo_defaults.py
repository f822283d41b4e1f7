"""PPO's defaults by what an environment shows and takes."""

from __future__ import annotations

from typing import Any

import pytest

from artos.specs.workload import Workload
from triggers.algorithms.defaults import minibatches_of
from triggers.algorithms.ppo import workload


def settings(env: str, actors: int | str = 2, **asked: Any) -> dict[str, Any]:
    found: Workload = workload(env, actors, **asked)
    assert found.steps == found.settings["steps"]
    return dict(found.settings)


DISCRETE = {
    "steps": 128, "lr": 1e-3, "anneal": True, "epochs": 4, "minibatches": 4, "clip": 0.2,
    "ent_coef": 0.01,
}  # fmt: skip
CONTINUOUS = {
    "steps": 256, "lr": 3e-4, "anneal": False, "epochs": 10, "minibatches": 32, "clip": 0.2,
    "ent_coef": 0.0,
}  # fmt: skip


def test_they_depend_on_the_actions() -> None:
    assert settings("CartPole-v1") == DISCRETE
    assert settings("Pendulum-v1") == CONTINUOUS


def test_minibatches_stay_as_large_with_more_actors_or_shorter_rounds() -> None:
    assert settings("Pendulum-v1", 4)["minibatches"] == 64
    assert settings("Pendulum-v1", "4..8")["minibatches"] == 64
    assert settings("Pendulum-v1", steps=16)["minibatches"] == 2
    assert settings("Pendulum-v1", 1, envs=1, steps=16)["minibatches"] == 1


def test_a_recurrent_policy_learns_from_whole_sequences() -> None:
    assert settings("Pendulum-v1", recurrent=True) == CONTINUOUS | {"minibatches": 4}


def test_what_was_asked_for_is_kept() -> None:
    asked = {
        "steps": 64, "lr": 0.5, "anneal": True, "epochs": 1, "minibatches": 8, "clip": 0.3,
        "ent_coef": 0.5,
    }  # fmt: skip
    assert settings("Pendulum-v1", **asked) == asked


@pytest.mark.parametrize("rows", [1, 63, 64, 100, 1000, 1024])
@pytest.mark.parametrize("actors", [1, 2, 3])
def test_minibatches_divide_the_rows_of_any_number_of_actors(rows: int, actors: int) -> None:
    found = minibatches_of(rows, actors)
    assert rows % found == 0
    assert found == 1 or rows * actors / found >= 64
