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
ROUNDS = {"actors": 2, "envs": 2, "steps": 16}
DQN = {"batch": 21, "hidden": [16], "sync": 1, "normalize": True}

LONGEST = 2 * 6 * 1e-3
"""How far two can get from each other in six steps of Adam, in opposite directions."""
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
    """But for rounding, which Adam makes a whole step of where a gradient is nothing else; so on
    some processors one value in fifty may be off, and none by more than such steps.
    """
    assert len(one) == len(several)
    for (arrays, metrics), (parts, summed) in zip(one, several, strict=True):
        assert arrays.keys() == parts.keys()
        for name, array in arrays.items():
            far = ~np.isclose(parts[name], array, rtol=1e-3, atol=2e-5)
            assert far.sum() <= far.size // 50, (name, parts[name][far], array[far])
            np.testing.assert_allclose(parts[name], array, rtol=1e-3, atol=LONGEST, err_msg=name)
        assert summed == pytest.approx(metrics, rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("more", [{}, {"normalize": True}, {"recurrent": True}])
def test_ppo(more: dict[str, Any], together: Make) -> None:
    one, two = (ppo(together("ppo", replicas, **PPO | more)) for replicas in (1, 2))
    assert_equal(one, two)


def early(run: Together) -> list[Any]:
    """As of ``ppo``; of the second version part of the work is done as rows come."""
    found = []
    with run:
        for number in range(3):
            claims = run.sample()
            for claim in claims[: 3 if number else 0]:
                run.fire("preprocess", claim)
                run.fire("first_pass", claim)
            found.append((run.arrays, run.update(*claims).metrics))
    return found


def added_up(run: Together) -> list[Any]:
    """As of ``ppo``; gradients of some rounds are added up before the last one came."""
    found = []
    with run:
        for number in range(3):
            claims = run.sample()
            run.fire("preprocess", *claims)
            for claim in claims[:number]:
                run.fire("accumulate", claim)
            found.append((run.arrays, run.update(*claims).metrics))
    return found


@pytest.mark.parametrize("more", [{}, {"normalize": True}, {"recurrent": True}])
@pytest.mark.parametrize(
    ("learn", "pipeline"), [(early, {"pipeline": "dual+minibatch", "minibatches": 3}),
                            (added_up, {"pipeline": "full", "minibatches": 1})],
)  # fmt: skip
def test_ppo_with_a_pipeline(
    learn: Callable[[Together], list[Any]], pipeline: dict[str, Any], more: dict[str, Any],
    together: Make,
) -> None:  # fmt: skip
    one, two = (learn(together("ppo", replicas, **PPO | pipeline | more)) for replicas in (1, 2))
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
        ("appo", {**ROUNDS, "minibatches": 2, "epochs": 1}),
        ("a2c", {"actors": 3, "envs": 1, "steps": 7}),
        ("a2c", {**ROUNDS, "recurrent": True}),
        ("impala", {**ROUNDS, "n": 2, "normalize": True}),
        ("trpo", {**ROUNDS, "minibatches": 2, "epochs": 2}),
        ("trpo", {**ROUNDS, "minibatches": 2, "epochs": 1, "recurrent": True}),
        ("rnd", {**ROUNDS, "epochs": 1, "predictor_share": 1.0, "normalize": True}),
        ("es", {"actors": 3, "envs": 2, "steps": 40, "normalize": True}),
        ("grpo", {"hidden": None, "actors": 1, "groups": 3, "group": 3, "width": 16, "heads": 2}),
        ("apex", {"batch": 21, "sync": 1, "actors": 2}),
        ("rainbow", {"batch": 21, "sync": 1}),
        ("r2d2", {"batch": 5, "sync": 1, "actors": 2, "steps": 32}),
        ("r2d2", {"batch": 5, "sync": 1, "actors": 2, "steps": 32, "replay": "uniform"}),
        ("sac", {"batch": 21, "sync": 1, "env": "CartPole-v1"}),
        ("sac", {"batch": 21, "sync": 1}),
        ("td3", {"batch": 21, "sync": 1}),
        # Normalised, a unit that one row alone excites has no gradient but rounding: many rows.
        ("crossq", {"batch": 201, "sync": 1, "critic_hidden": [32], "delay": 2}),
        ("crossq", {"batch": 201, "sync": 1, "critic_hidden": [32], "renorm_after": 2}),
        ("ddpg", {"batch": 21, "sync": 1}),
        ("d4pg", {"batch": 21, "sync": 1, "actors": 2}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_the_page_lists(workload: str, settings: dict[str, Any], together: Make) -> None:
    learn = drawing if "batch" in settings else ppo
    small = {name: value for name, value in {"hidden": [16], **settings}.items() if value}
    one, two = (learn(together(workload, replicas, **small)) for replicas in (1, 2))
    assert_equal(one, two)
