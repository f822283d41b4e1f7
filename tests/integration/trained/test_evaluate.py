"""Evaluations are those of a plain Gymnasium loop; videos show every step."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.wrappers import RecordEpisodeStatistics
from PIL import Image

import artos
from artos.errors import DeadlineExceeded, Refused
from artos.system.random_streams import streams_of

Toy = Callable[[str], str]


def loop(
    trained: artos.Trained, make: Callable[[], Any], episodes: int, seed: int, envs: int
) -> Any:
    """Returns and lengths as Gymnasium records them, one environment after the other."""
    found: dict[int, tuple[float, int]] = {}
    for number in range(envs):
        env = RecordEpisodeStatistics(make())
        for episode in range(number, episodes, envs):
            obs, _ = env.reset(seed=seed + number if episode == number else None)
            over = False
            while not over:
                obs, _, terminated, truncated, info = env.step(trained.act(obs))
                over = terminated or truncated
            found[episode] = (float(info["episode"]["r"]), int(info["episode"]["l"]))
        env.close()
    return zip(*(found[k] for k in range(episodes)), strict=True)


@pytest.mark.parametrize("kind", ["discrete", "grid", "bits", "continuous", "parts", "three"])
@pytest.mark.parametrize("episodes", [3, 10])
def test_a_plain_loop_finds_the_same(kind: str, episodes: int, toy: Toy) -> None:
    trained = artos.load(toy(kind))
    toys = importlib.import_module("toys_to_load")
    make = getattr(toys, "discrete" if kind == "three" else kind)
    returns, lengths = loop(trained, make, episodes, seed=7, envs=4)
    found = trained.evaluate(episodes, seed=7)
    assert found.lengths == lengths
    assert len(set(lengths)) > 1
    np.testing.assert_allclose(found.returns, returns, rtol=1e-5)
    assert found.mean_return == pytest.approx(np.mean(returns))


def test_cartpole_by_its_own_loop(train: Any) -> None:
    """The simplest loop there is, with a seed for each episode."""
    trained = artos.load(train("dqn", "my_dqn.py:workload", steps=1100))
    env, totals = gym.make("CartPole-v1"), []
    for seed in range(5, 9):
        obs, _ = env.reset(seed=seed)
        total, over = 0.0, False
        while not over:
            obs, reward, terminated, truncated, _ = env.step(trained.act(obs))
            total, over = total + float(reward), terminated or truncated
        totals.append(total)
    env.close()
    assert trained.evaluate(4, seed=5).returns == tuple(totals)


def test_actions_are_not_drawn_by_what_an_environment_of_the_same_seed_draws_by(toy: Toy) -> None:
    drawing = streams_of(artos.load(toy("discrete"), seed=3).policy(3))
    own = [each for each in drawing if isinstance(each, np.random.Generator)]
    env = np.random.default_rng(3).bit_generator.state["state"]["inc"]
    assert own
    assert all(each.bit_generator.state["state"]["inc"] != env for each in own)


def test_a_seed_repeats_sampled_episodes(toy: Toy) -> None:
    trained = artos.load(toy("discrete"))
    found = [trained.evaluate(6, greedy=False, seed=seed) for seed in (3, 3, 4)]
    assert found[0] == found[1]
    assert found[0].returns != found[2].returns
    assert found[0].returns != trained.evaluate(6, seed=3).returns


def test_all_that_is_wrong_with_a_request(toy: Toy) -> None:
    with pytest.raises(Refused) as refused:
        artos.load(toy("discrete")).evaluate(0, seed=-1, deadline=0)
    assert len(refused.value.faults) == 3


def test_an_environment_of_another_kind(toy: Toy) -> None:
    with pytest.raises(Refused, match="CartPole-v1 shows float32"):
        artos.load(toy("discrete")).evaluate(1, env="CartPole-v1")


def test_episodes_without_an_end(toy: Toy) -> None:
    with pytest.raises(DeadlineExceeded, match="toys_to_load:endless"):
        artos.load(toy("discrete")).evaluate(1, env="toys_to_load:endless", deadline=0.1)


def frames(path: str) -> list[np.ndarray[Any, Any]]:
    with Image.open(path) as image:
        found = []
        for number in range(getattr(image, "n_frames", 1)):
            image.seek(number)
            found.append(np.asarray(image.convert("RGB")))
        return found


def test_a_video_of_each_episode_to_its_last_picture(toy: Toy, tmp_path: Path) -> None:
    trained = artos.load(toy("discrete"))
    plain = trained.evaluate(10, seed=3, env="toys_to_load:discrete")
    found = trained.evaluate(10, seed=3, env="toys_to_load:drawing", video=tmp_path / "clips")
    assert (found.returns, found.lengths) == (plain.returns, plain.lengths)
    names = [tmp_path / "clips" / f"episode-{k}.gif" for k in range(10)]
    assert found.videos == tuple(map(str, names))
    assert sorted((tmp_path / "clips").iterdir()) == names
    for path, length in zip(found.videos, found.lengths, strict=True):
        shown = [int(frame[0, 0, 0]) for frame in frames(path)]
        assert shown == pytest.approx([20 * left for left in range(length, -1, -1)], abs=4)
        with Image.open(path) as image:
            assert image.info["duration"] == 100


def test_what_cannot_draw_itself_is_filmed_as_the_policy_sees_it(toy: Toy, tmp_path: Path) -> None:
    found = artos.load(toy("picture")).evaluate(6, seed=3, video=tmp_path)
    for path, length in zip(found.videos, found.lengths, strict=True):
        assert len(frames(path)) == length + 1
        assert frames(path)[0].shape == (240, 264, 3)


def test_what_can_neither_draw_itself_nor_shows_pictures(toy: Toy, tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"cannot be filmed: .*a keyword that a factory may accept"):
        artos.load(toy("discrete")).evaluate(1, video=tmp_path)
    with pytest.raises(Refused, match="cannot be filmed: it is a vector environment"):
        artos.load(toy("three")).evaluate(1, video=tmp_path)


def test_a_folder_that_cannot_be_made(toy: Toy, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Refused, match="video folder"):
        artos.load(toy("discrete")).evaluate(1, video=tmp_path / "file" / "clips")
