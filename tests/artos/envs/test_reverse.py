"""The text task: what is shown, when it ends, what it pays."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from artos.envs.make import make_vector
from artos.envs.reverse import Reverse
from artos.envs.stepper import Stepper
from artos.specs.keys import OBSERVATIONS


def played(env: Reverse, answer: list[int]) -> tuple[list[int], float]:
    """What the text is in the end, and what is paid for it."""
    for token in answer:
        text, paid, over, _, _ = env.step(token)
        assert over == (token == answer[-1]) or not paid
    assert over
    return text.tolist(), paid


@pytest.mark.parametrize(
    ("wrong", "partial", "wanted"),
    [(0, True, 1.0), (1, True, 0.5 * 2 / 3), (3, True, 0.0), (0, False, 1.0), (1, False, 0.0)],
)
def test_what_it_pays(wrong: int, partial: bool, wanted: float) -> None:
    env = Reverse(3, partial)
    prompt = env.reset(seed=4)[0].tolist()
    assert prompt[3:] == [11, 0, 0, 0]
    answer = prompt[2::-1]
    answer[:wrong] = [11] * wrong
    assert played(env, answer) == ([*prompt[:4], *answer], pytest.approx(wanted))


def test_token_0_ends_a_text() -> None:
    env = Reverse(3)
    prompt = env.reset(seed=4)[0].tolist()
    assert played(env, [prompt[2], 0])[1] == pytest.approx(0.5 / 3)


def test_it_is_an_environment_like_any_other() -> None:
    check_env(Reverse(2), skip_render_check=True)
    with pytest.raises(ValueError, match="digits must be at least 1, not 0"):
        Reverse(0)


def test_neighbours_are_asked_the_same() -> None:
    stepper = Stepper(make_vector("ReverseText-v0", 6))
    first = stepper.reset(7, alike=3)[OBSERVATIONS].copy()
    assert (first[:3] == first[0]).all()
    assert (first[3:] == first[3]).all()
    assert (first[0] != first[3]).any()
    assert np.array_equal(stepper.reset(7)[OBSERVATIONS][:2], first[[0, 3]])
