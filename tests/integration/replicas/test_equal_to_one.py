"""Two replicas learn what one learner does with the whole of each batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from together import Together

pytestmark = pytest.mark.processes

PPO = {"actors": 3, "envs": 2, "steps": 17, "hidden": [16], "minibatches": 2, "epochs": 2}
"""51 rows in a minibatch, which do not divide by two."""
DQN = {"batch": 21, "hidden": [16], "sync": 1, "normalize": True}

Make = Callable[..., Together]


def ppo(run: Together) -> list[Any]:
    """The arrays of three versions, and what was said of the updates that made them."""
    found = []
    with run:
        for _ in range(3):
            done = run.update(*run.sample())
            found.append((run.arrays, done.metrics))
    return found


def drawing(run: Together) -> list[Any]:
    found = []
    with run:
        for _ in range(6):
            run.sample()
            done = run.update()
            found.append((run.arrays, done.metrics))
    return found


def assert_equal(one: list[Any], several: list[Any]) -> None:
    assert len(one) == len(several)
    for (arrays, metrics), (parts, summed) in zip(one, several, strict=True):
        assert arrays.keys() == parts.keys()
        for name, array in arrays.items():
            np.testing.assert_allclose(parts[name], array, rtol=1e-3, atol=2e-5, err_msg=name)
        assert summed == pytest.approx(metrics, rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("more", [{}, {"normalize": True}, {"recurrent": True}])
def test_ppo(more: dict[str, Any], together: Make) -> None:
    one, two = (ppo(together("ppo", replicas, **PPO | more)) for replicas in (1, 2))
    assert_equal(one, two)


def test_ppo_by_three(together: Make) -> None:
    one, three = (ppo(together("ppo", replicas, **PPO)) for replicas in (1, 3))
    assert_equal(one, three)


@pytest.mark.parametrize("replay", ["uniform", "prioritised"])
def test_dqn(replay: str, together: Make) -> None:
    """Priorities, too, are those of the whole batch: by them the next one is drawn."""
    one, two = (drawing(together("dqn", replicas, replay=replay, **DQN)) for replicas in (1, 2))
    assert_equal(one, two)


@pytest.mark.long
@pytest.mark.parametrize(
    ("workload", "settings"),
    [
        ("appo", {"actors": 2, "envs": 2, "steps": 16, "minibatches": 2, "epochs": 1}),
        ("apex", {"batch": 21, "sync": 1, "actors": 2}),
        ("rainbow", {"batch": 21, "sync": 1}),
        ("sac", {"batch": 21, "sync": 1, "env": "CartPole-v1"}),
        ("ddpg", {"batch": 21, "sync": 1}),
        ("d4pg", {"batch": 21, "sync": 1, "actors": 2}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_the_page_lists(workload: str, settings: dict[str, Any], together: Make) -> None:
    learn = ppo if workload == "appo" else drawing
    small = {"hidden": [16]} | settings
    one, two = (learn(together(workload, replicas, **small)) for replicas in (1, 2))
    assert_equal(one, two)
