from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from toys import Counting, Moving, Nested, Poisoned, Shifted

from artos.envs.serial import SerialVectorEnv
from artos.envs.stepper import Stepper
from artos.errors import BadRow, Refused

MODES = list(AutoresetMode)
Makers = list[Callable[[], gym.Env[Any, Any]]]


def serial(makers: Makers) -> VectorEnv[Any, Any, Any]:
    return SerialVectorEnv(makers)


def sync(mode: AutoresetMode) -> Callable[[Makers], VectorEnv[Any, Any, Any]]:
    return lambda makers: SyncVectorEnv(makers, autoreset_mode=mode)


def serial_waiting(makers: Makers) -> VectorEnv[Any, Any, Any]:
    return SerialVectorEnv(makers, AutoresetMode.NEXT_STEP)


WAYS = [serial, serial_waiting, *(sync(mode) for mode in MODES)]
NAMES = ["serial", "serial waiting", *(mode.name for mode in MODES)]
WAITS = pytest.mark.parametrize(
    "autoreset", [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP], ids=["at once", "waiting"]
)
"""When environments that do not reset themselves are reset."""


def makers(*lengths: int, truncates: bool = False) -> Makers:
    return [lambda n=n: Counting(n, truncates) for n in lengths]  # type: ignore[misc]


def transitions(stepper: Stepper, env: int, steps: int) -> list[Any]:
    """What a learner sees of one environment: valid rows and the observation that followed."""
    seen = []
    obs = stepper.reset(seed=0)["observations"].copy()
    for _ in range(steps):
        step = stepper.step(np.zeros(stepper.envs, np.int64))
        after = step.obs["observations"][env].tolist()
        if step.ended is not None and env in step.ended:
            assert step.final is not None
            after = step.final["observations"][list(step.ended).index(env)].tolist()
        if step.valid[env]:
            over = bool(step.terminations[env] or step.truncations[env])
            seen.append((obs[env].tolist(), after, float(step.rewards[env]), over))
        obs = step.obs["observations"].copy()
    return seen


@pytest.mark.parametrize("way", WAYS, ids=NAMES)
@pytest.mark.parametrize("truncates", [False, True])
def test_a_learner_sees_the_same_transitions_in_every_mode(
    way: Callable[[Makers], Any], truncates: bool
) -> None:
    stepper = Stepper(way(makers(3, 2, truncates=truncates)))
    for env, length in enumerate((3, 2)):
        first = None
        for at, (before, after, reward, over) in enumerate(transitions(stepper, env, 13)):
            first = before[0] if first is None else first
            episode, step = divmod(at, length)
            assert before == [first + episode, step]
            assert after == [first + episode, step + 1]
            assert reward == step + 1
            assert over == (step + 1 == length)
        assert at >= 8
    stepper.close()


@pytest.mark.parametrize(
    "way",
    [serial_waiting, sync(AutoresetMode.NEXT_STEP), sync(AutoresetMode.DISABLED)],
    ids=["serial", "next step", "disabled"],
)
def test_next_step_mode_marks_exactly_the_rows_that_only_reset(
    way: Callable[[Makers], Any],
) -> None:
    stepper = Stepper(way(makers(2, 3)), autoreset=AutoresetMode.NEXT_STEP)
    assert stepper.spec.skips_rows
    stepper.reset(0)
    valid, ages = [], []
    for _ in range(8):
        ages.append(stepper.ages.tolist())
        step = stepper.step(np.zeros(2, np.int64))
        valid.append(step.valid.tolist())
        assert (step.rewards != 0).tolist() == valid[-1]
    assert [v[0] for v in valid] == [True, True, False] * 2 + [True, True]
    assert [v[1] for v in valid] == [True, True, True, False] * 2
    assert [a[0] for a in ages] == [0, 1, 2] * 2 + [0, 1]
    assert [a[1] for a in ages] == [0, 1, 2, 3] * 2
    stepper.close()


@pytest.mark.parametrize("way", [serial, sync(AutoresetMode.DISABLED)], ids=["serial", "disabled"])
def test_every_row_is_valid_where_the_reset_takes_no_row(way: Callable[[Makers], Any]) -> None:
    stepper = Stepper(way(makers(2)))
    stepper.reset(0)
    ages = []
    for _ in range(5):
        ages.append(int(stepper.ages[0]))
        assert stepper.step(np.zeros(1, np.int64)).valid.all()
    assert ages == [0, 1, 0, 1, 0]
    stepper.close()


@WAITS
@pytest.mark.parametrize("way", WAYS, ids=NAMES)
def test_episodes_are_counted_once_with_raw_rewards(
    way: Callable[[Makers], Any], autoreset: AutoresetMode
) -> None:
    stepper = Stepper(way(makers(3, 4)), clip_rewards=True, autoreset=autoreset)
    stepper.reset(0)
    clipped = [stepper.step(np.zeros(2, np.int64)).rewards.tolist() for _ in range(4)]
    assert max(max(row) for row in clipped) == 1.0
    returns, lengths = stepper.drain_episodes()
    assert (returns, lengths) == ((6.0, 10.0), (3, 4))
    assert stepper.drain_episodes() == ((), ())
    for _ in range(5):
        stepper.step(np.zeros(2, np.int64))
    assert set(stepper.drain_episodes()[1]) <= {3, 4}
    stepper.close()


def test_ages_stop_at_255() -> None:
    stepper = Stepper(serial(makers(300)))
    stepper.reset(0)
    for _ in range(270):
        stepper.step(np.zeros(1, np.int64))
    assert stepper.ages.tolist() == [255]
    stepper.close()


@pytest.mark.parametrize("way", WAYS, ids=NAMES)
def test_nested_dict_observations_come_as_flat_parts(way: Callable[[Makers], Any]) -> None:
    stepper = Stepper(way([lambda: Nested(2)] * 2))
    obs = stepper.reset(0)
    assert set(obs) == {p.name for p in stepper.spec.parts}
    for part in stepper.spec.parts:
        assert obs[part.name].shape == (2, *part.value_shape)
    assert obs["observations.height"].dtype == np.float32
    stepper.step(np.array([[2, 1], [0, 0]]))
    step = stepper.step(np.array([[2, 1], [0, 0]]))
    assert step.final is not None
    assert step.final["observations.place.door"].tolist() == [[2, 1]] * 2
    assert step.final["observations.height"].tolist() == [[[2, 2], [2, 2]]] * 2
    stepper.close()


def test_a_vector_environment_in_other_processes_works_too() -> None:
    stepper = Stepper(AsyncVectorEnv([Nested] * 2, autoreset_mode=AutoresetMode.SAME_STEP))
    stepper.reset(0)
    steps = [stepper.step(np.zeros((2, 2), np.int64)) for _ in range(3)]
    assert steps[2].ended is not None
    assert steps[2].ended.tolist() == [0, 1]
    assert steps[2].final is not None
    assert steps[2].final["observations.place.door"][:, 0].tolist() == [3, 3]
    stepper.close()


def test_box_actions_are_clipped_only_for_the_environment() -> None:
    stepper = Stepper(serial([Moving]))
    stepper.reset(0)
    actions = np.array([[7.0, 1e6]], np.float32)
    assert stepper.step(actions).obs["observations"].tolist() == [[1.0, 1e6]]
    assert actions.tolist() == [[7.0, 1e6]]
    assert stepper.step(-actions).obs["observations"].tolist() == [[-1.0, -2.0]]
    stepper.close()


def test_actions_that_begin_elsewhere_are_shifted() -> None:
    stepper = Stepper(serial([Shifted] * 2))
    stepper.reset(0)
    assert stepper.step(np.array([0, 2])).rewards.tolist() == [5.0, 7.0]
    stepper.close()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", ["observation", "reward"])
def test_what_is_not_finite_is_refused_by_place(value: float, where: str) -> None:
    stepper = Stepper(serial([Counting, lambda: Poisoned(value, where)]), "poison")
    stepper.actor, stepper.step_number = 4, 77
    stepper.reset(0)
    stepper.step(np.zeros(2, np.int64))
    with pytest.raises(BadRow, match="poison: environment 1 returned") as caught:
        stepper.step(np.zeros(2, np.int64))
    assert (caught.value.actor, caught.value.step) == (4, 77)
    assert caught.value.key == ("rewards" if where == "reward" else "observations")
    stepper.close()


def test_huge_but_finite_numbers_pass() -> None:
    stepper = Stepper(serial([lambda: Poisoned(1e38)] * 2))
    stepper.reset(0)
    for _ in range(3):
        stepper.step(np.zeros(2, np.int64))
    stepper.close()


def test_an_unknown_autoreset_mode_is_refused() -> None:
    env = SyncVectorEnv([Counting])
    env.metadata["autoreset_mode"] = "sometimes"
    with pytest.raises(Refused, match=r"'sometimes'.*AutoresetMode\.SAME_STEP"):
        Stepper(env)
    env.close()


def test_a_lost_life_terminates_for_the_learner_only() -> None:
    class Lives(SerialVectorEnv):
        def step(self, actions: Any) -> Any:
            *rest, info = super().step(actions)
            lives = np.array([3 - env.at // 2 for env in self.envs])  # type: ignore[attr-defined]
            return *rest, {**info, "lives": lives}

    stepper = Stepper(Lives(makers(7)), terminal_lives=True)
    stepper.reset(0)
    ended = []
    for _ in range(7):
        step = stepper.step(np.zeros(1, np.int64))
        ended.append((bool(step.terminations[0]), step.ended is not None))
    assert [flag for flag, _ in ended] == [False, True, False, True, False, True, True]
    assert [over for _, over in ended] == [False] * 6 + [True]
    assert stepper.drain_episodes() == ((28.0,), (7,))
    stepper.close()


def test_lives_may_be_written_into_one_array() -> None:
    class Lives(SerialVectorEnv):
        lives = np.zeros(1, np.int64)

        def reset(self, **options: Any) -> Any:
            obs, info = super().reset(**options)
            self.lives[:] = 3
            return obs, {**info, "lives": self.lives}

        def step(self, actions: Any) -> Any:
            *rest, info = super().step(actions)
            self.lives -= 1
            return *rest, {**info, "lives": self.lives}

    stepper = Stepper(Lives(makers(7)), terminal_lives=True)
    stepper.reset(0)
    lost = [bool(stepper.step(np.zeros(1, np.int64)).terminations[0]) for _ in range(3)]
    assert lost == [True] * 3
    stepper.close()


class Losing(Counting):
    """Loses a life with every step, and says how many are left."""

    def reset(self, **options: Any) -> Any:
        obs, info = super().reset(**options)
        return obs, {**info, "lives": 5}

    def step(self, action: Any) -> Any:
        *rest, info = super().step(action)
        return *rest, {**info, "lives": 5 - self.at}


@WAITS
@pytest.mark.parametrize("way", WAYS, ids=NAMES)
@pytest.mark.parametrize("truncates", [False, True])
def test_a_life_lost_as_the_episode_ends_changes_nothing_about_its_end(
    way: Callable[[Makers], Any], truncates: bool, autoreset: AutoresetMode
) -> None:
    """What is cut short is bootstrapped, whatever else happened in that step."""
    env = way([lambda: Losing(4, truncates)])
    stepper = Stepper(env, terminal_lives=True, autoreset=autoreset)
    stepper.reset(0)
    seen = []
    while len(seen) < 3 * 4:
        step = stepper.step(np.zeros(1, np.int64))
        if step.valid[0]:
            seen.append((bool(step.terminations[0]), bool(step.truncations[0])))
    last = (False, True) if truncates else (True, False)
    assert seen == 3 * [(True, False), (True, False), (True, False), last]
    stepper.close()


class Silent(Losing):
    """Its resets do not say how many lives it has."""

    def reset(self, **options: Any) -> Any:
        return Counting.reset(self, **options)


@WAITS
def test_a_life_lost_as_another_environment_begins_anew_is_marked_at_once(
    autoreset: AutoresetMode,
) -> None:
    env = SerialVectorEnv([lambda: Silent(2), lambda: Silent(9)], autoreset)
    stepper = Stepper(env, terminal_lives=True, autoreset=autoreset)
    stepper.reset(0)
    marked = [bool(stepper.step(np.zeros(2, np.int64)).terminations[1]) for _ in range(6)]
    assert marked == [False, True, True, True, True, True]
    stepper.close()
