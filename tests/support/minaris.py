"""Data sets of Minari's, written by Minari itself; without it tests of them are skipped."""

from __future__ import annotations

import importlib.util
import warnings
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

LACKING = [each for each in ("minari", "h5py") if importlib.util.find_spec(each) is None]
needs_minari = pytest.mark.skipif(bool(LACKING), reason=f"{', '.join(LACKING)} not installed")


def collected(env: gym.Env[Any, Any], name: str, episodes: int) -> list[Any]:
    """Play episodes at random, and store them under a name; returns them as Minari has them."""
    import minari  # noqa: PLC0415

    buffers = []
    env.action_space.seed(1)
    for seed in range(episodes):
        seen, steps = [env.reset(seed=seed)[0]], []
        while not steps or not (steps[-1][2] or steps[-1][3]):
            action = env.action_space.sample()
            after, *told = env.step(action)
            seen.append(after)
            steps.append((action, *told))
        actions, rewards, terminations, truncations, _ = map(list, zip(*steps, strict=True))
        parts = isinstance(seen[0], dict) and {name: [o[name] for o in seen] for name in seen[0]}
        buffers.append(minari.data_collector.EpisodeBuffer(
            observations=parts or seen, actions=actions, rewards=rewards,
            terminations=terminations, truncations=truncations,
        ))  # fmt: skip
    with warnings.catch_warnings(action="ignore"):  # about authors, licences and the like
        found = minari.create_dataset_from_buffers(
            name, buffers, observation_space=env.observation_space, action_space=env.action_space
        )
    env.close()
    return [*found.iterate_episodes()]


def at(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have Minari keep its data sets in a folder."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(folder))
