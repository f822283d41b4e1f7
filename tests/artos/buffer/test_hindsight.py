"""Goals that are reached later: of which rows, and what is paid for them."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from buffer_helpers import new_block
from numpy.typing import NDArray

from artos.buffer.actor_block import ActorBlock
from artos.buffer.samplers.drawn_batch import sampler_of
from artos.buffer.samplers.patterns import Draw, Uniform
from artos.buffer.samplers.transitions import DISCOUNTS, NEXT, RELABELLED, RETURNS, Sample
from artos.buffer.samplers.uniform import UniformSampler
from artos.buffer.shm_folder import ShmFolder
from artos.specs.keys import ACHIEVED_KEY, DESIRED_KEY, VERSION_KEY, DataKey
from artos.system.snapshot import pickled, put_back, taken

ENVS, GAMMA = 2, 0.9
KEYS = (
    DataKey(ACHIEVED_KEY, (2,), "int64"), DataKey(DESIRED_KEY, (2,), "int64"),
    DataKey("actions", (), "int64"), DataKey("rewards"), DataKey("terminations", (), "bool"),
    DataKey("truncations", (), "bool"), DataKey("ages", (), "uint8"), DataKey("valid", (), "bool"),
)  # fmt: skip
DRAWN = (ACHIEVED_KEY, DESIRED_KEY, "actions", "rewards", "terminations", "truncations")


class Told:
    """Pays a number that says which goals they are; one that is reached ends the episode."""

    def rewards(self, reached: NDArray[Any], wanted: NDArray[Any]) -> NDArray[np.float32]:
        return np.asarray(reached[:, 1] * 1000 + wanted[:, 1], np.float32)

    def terminations(self, reached: NDArray[Any], wanted: NDArray[Any]) -> NDArray[np.bool_]:
        return np.asarray((reached == wanted).all(1))


class Silent(Told):
    """Says nothing of terminations."""

    def terminations(self, reached: NDArray[Any], wanted: NDArray[Any]) -> None:  # type: ignore[override]
        return None


class Episodes:
    """Writes episodes; row ``step`` has reached ``(episode, step)``, and wants ``(-1, step)``.

    Every other episode that ends is terminated, the others are truncated. ``give_up`` begins others
    without an end.
    """

    def __init__(self, folder: ShmFolder, lengths: tuple[int, ...], capacity: int) -> None:
        self.block: ActorBlock = new_block(folder.path, KEYS, capacity, envs=ENVS)
        self.lengths, self.step = lengths, 0
        self.of: list[list[int]] = []
        self.ages, self.number = [0] * ENVS, [*range(ENVS)]

    def give_up(self) -> None:
        self.ages = [0] * ENVS
        self.number = [number + ENVS for number in self.number]

    def write(self, count: int) -> None:
        start = self.block.allocate(count)
        for step in range(start, start + count):
            row: dict[str, Any] = {key.name: np.zeros((ENVS, *key.shape)) for key in KEYS}
            for env, (age, number) in enumerate(zip(self.ages, self.number, strict=True)):
                length = self.lengths[number % len(self.lengths)]
                row[ACHIEVED_KEY][env], row[DESIRED_KEY][env] = (number, step), (-1, step)
                row["rewards"][env], row["ages"][env] = -step, min(age, 255)
                row["valid"][env] = age < length
                ends = "terminations" if number // ENVS % 2 else "truncations"
                row[ends][env] = age == length - 1
                self.ages[env] = (age + 1) % (length + 1)
                self.number[env] += ENVS * (self.ages[env] == 0)
            for name, value in row.items():
                self.block.arrays[name][self.block.index(step)] = value
            self.block.arrays[VERSION_KEY][self.block.index(step)] = 0
            self.of.append(row[ACHIEVED_KEY][:, 0].astype(int).tolist())
        self.block.commit(start + count)
        self.step = start + count

    def sampler(self, her: float, goals: Told | None = None, batch: int = 256) -> UniformSampler:
        draw = Draw("learner.update", DRAWN, Uniform(batch, gamma=GAMMA, her=her))
        made = sampler_of(draw, {0: self.block}, 1, goals=lambda: goals or Told())
        assert isinstance(made, UniformSampler)
        return made

    def check(self, sample: Mapping[str, NDArray[Any]], *, by_goal: bool = True) -> None:
        """Every row's goal, reward and discount against what was written."""
        chosen = sample[RELABELLED]
        for at, (_, step, env) in enumerate(sample["index"].tolist()):
            number = self.of[step][env]
            goal, after = sample[DESIRED_KEY][at].tolist(), sample[NEXT + DESIRED_KEY][at].tolist()
            np.testing.assert_array_equal(sample[ACHIEVED_KEY][at], (number, step))
            np.testing.assert_array_equal(sample[NEXT + ACHIEVED_KEY][at], (number, step + 1))
            length = self.lengths[number % len(self.lengths)]
            began = next(s for s in range(step, -1, -1) if s == 0 or self.of[s - 1][env] != number)
            terminated = bool(number // ENVS % 2) and step - began == length - 1
            if not chosen[at]:
                assert (goal, after) == ([-1, step], [-1, step + 1])
                assert sample[RETURNS][at] == -step
            else:
                assert goal == after
                assert goal[0] == number
                assert step < goal[1] < self.step
                assert self.of[goal[1]][env] == number
                assert sample[RETURNS][at] == np.float32((step + 1) * 1000 + goal[1])
                terminated |= by_goal and goal[1] == step + 1
            assert sample[DISCOUNTS][at] == np.float32(0 if terminated else GAMMA)


@pytest.mark.parametrize("lengths", [(1, 3), (5, 2, 9), (200, 90)])
def test_each_goal_was_reached_later_in_its_episode(
    folder: ShmFolder, lengths: tuple[int, ...]
) -> None:
    """Also where the block was overwritten, and an episode given up in its midst."""
    made = Episodes(folder, lengths, 500)
    sampler = made.sampler(0.8)
    for count in (3, 40, 300, 1, 200, 250):
        made.write(count)
        for _ in range(3):
            made.check(sampler.sample())
        made.give_up()


def test_goals_are_chosen_by_other_numbers_than_rows(folder: ShmFolder) -> None:
    sampler = Episodes(folder, (5,), 500).sampler(0.5)
    goals = sampler._reader._hindsight
    assert goals is not None
    assert not np.isin(sampler._rng.random(64), goals._rng.random(64)).any()


def test_a_share_of_the_rows_is_relabelled_and_each_later_one_as_often(folder: ShmFolder) -> None:
    made = Episodes(folder, (10,), 12)
    made.write(11)
    sampler, goals, shares = made.sampler(0.25), np.zeros(11, int), []
    for _ in range(100):
        sample = sampler.sample()
        chosen, first = sample[RELABELLED], sample["index"][:, 1] == 0
        shares.append(chosen.mean())
        goals += np.bincount(sample[DESIRED_KEY][chosen & first, 1], minlength=11)
    assert np.mean(shares) == pytest.approx(0.25, abs=0.01)
    assert goals[0] == 0
    assert np.abs(goals[1:] - goals.sum() / 10).max() < 5 * (goals.sum() / 10) ** 0.5


def test_without_terminations_by_goal_they_stay_as_they_were(folder: ShmFolder) -> None:
    made = Episodes(folder, (3, 4), 100)
    made.write(60)
    made.check(made.sampler(1.0, Silent()).sample(), by_goal=False)


def test_a_termination_that_the_goal_brought_goes_with_it(folder: ShmFolder) -> None:
    """Where the wanted goal is what was reached, another one would not have ended the episode."""
    made = Episodes(folder, (1,), 40)
    made.write(38)
    block = made.block
    block.arrays[DESIRED_KEY][:-1] = block.arrays[ACHIEVED_KEY][1:]
    sampler = made.sampler(1.0)
    sample = sampler.sample()
    # The one later row of each is what was wanted: the goal that is given ends it, too.
    assert (sample[DISCOUNTS] == 0).all()
    block.arrays["ages"][:] = 1  # as if all were one episode
    sample = sampler.sample()
    other = sample[DESIRED_KEY][:, 1] != sample["index"][:, 1] + 1
    assert other.any()
    np.testing.assert_array_equal(sample[DISCOUNTS] > 0, other)


def test_rows_overwritten_while_they_are_read_have_goals_of_their_own(
    folder: ShmFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Episodes(folder, (5, 2, 9), 30)
    made.write(30)
    sampler = made.sampler(0.8)
    fill, laps = sampler._reader._fill, iter([17, 3, 8])

    def interrupted(out: Sample, picks: Any) -> None:
        fill(out, picks)
        if (count := next(laps, 0)) > 0:
            made.write(count)

    monkeypatch.setattr(sampler._reader, "_fill", interrupted)
    sample = sampler.sample()
    made.check(sample)
    assert sample["index"][:, 1].min() >= 28


def test_it_goes_on_from_a_snapshot(folder: ShmFolder) -> None:
    made = Episodes(folder, (5, 2, 9), 50)
    made.write(40)
    first, second = made.sampler(0.5), made.sampler(0.5)
    first.sample()
    put_back(second, pickle.loads(pickled(taken(first))))
    once, again = first.sample(), second.sample()
    assert once.keys() == again.keys()
    for name, value in once.items():
        np.testing.assert_array_equal(again[name], value, err_msg=name)


def test_nobody_to_ask(folder: ShmFolder) -> None:
    made = Episodes(folder, (3,), 10)
    with pytest.raises(ValueError, match="relabels goals: say what the environment pays"):
        sampler_of(Draw("learner.update", DRAWN, Uniform(4, her=0.1)), {0: made.block}, 1)
