"""Games in which agents take turns, as games in which all act at once."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from gymnasium import spaces
from pettingzoo import AECEnv

from artos.envs.make import describe, make_vector
from artos.envs.stepper import Stepper
from artos.errors import Refused


class Counting(AECEnv[str, Any, Any]):
    """Each in turn says 1 or 2, and may say 2 only every other time; who says 5 or more wins."""

    metadata: ClassVar[dict[str, Any]] = {"name": "counting"}

    def __init__(self, where: str = "observation") -> None:
        super().__init__()
        self.possible_agents, self.where, self.render_mode = ["a", "b"], where, None

    def observation_space(self, agent: str) -> Any:
        count = spaces.Box(0, 9, (1,), np.float32)
        if self.where != "observation":
            return count
        mask = spaces.Box(0, 1, (2,), np.int8)
        return spaces.Dict({"observation": count, "action_mask": mask})

    def action_space(self, agent: str) -> Any:
        return spaces.Discrete(2)

    def reset(self, seed: int | None = None, options: Any = None) -> None:
        self.agents, self.agent_selection, self.count = ["a", "b"], "a", 0
        self.rewards = self._cumulative_rewards = {"a": 0, "b": 0}
        self.terminations = self.truncations = {"a": False, "b": False}
        self._tell()

    def _tell(self) -> None:
        said = {"action_mask": self._mask()} if self.where == "info" else {}
        self.infos = {agent: {**said} for agent in self.agents}

    def _mask(self) -> Any:
        return np.array([1, self.count % 2], np.int8)

    def observe(self, agent: str) -> Any:
        count = np.array([self.count], np.float32)
        if self.where != "observation":
            return count
        return {"observation": count, "action_mask": self._mask()}

    def step(self, action: Any) -> None:
        if self.terminations[self.agent_selection]:
            self._was_dead_step(action)
            return
        assert self._mask()[action], "it was not allowed"
        mover, other = self.agent_selection, "b" if self.agent_selection == "a" else "a"
        self.count += int(action) + 1
        if self.count >= 5:
            self.rewards = {mover: 1, other: -1}
            self.terminations = {"a": True, "b": True}
        self.agent_selection = other
        self._tell()


def env(where: str = "observation") -> Counting:
    return Counting(where)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of a user's with the game, called like no module that tests import."""
    shutil.copy(__file__, tmp_path / "saying_numbers.py")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("where", ["observation", "info"])
def test_who_waits_has_one_action_that_does_nothing(here: Path, where: str) -> None:
    address = f"pettingzoo:saying_numbers(where={where!r})"
    assert describe(address).masked == where
    stepper = Stepper(make_vector(address, 4), masked=where == "info")
    obs, rows = stepper.reset(seed=0), []
    for _ in range(5):
        masks = obs["observations.action_mask"]
        assert masks.any(1).all()
        act = np.where(masks[:, 1], 1, 0)  # two where that may be said
        step = stepper.step(act)
        seen = masks.astype(int)[:2].tolist() if step.valid[0] else None
        rows.append((seen, step.rewards[:2].tolist(), step.valid[0]))
        obs = step.obs
    assert rows == [
        ([[1, 0], [1, 0]], [0, 0], True),  # 1, by a
        ([[1, 0], [1, 1]], [0, 0], True),  # 3, by b
        ([[1, 1], [1, 0]], [1, -1], True),  # 5, by a
        (None, [0, 0], False),  # they begin again
        ([[1, 0], [1, 0]], [0, 0], True),
    ]
    assert stepper.drain_episodes() == ((1.0, -1.0) * 2, (3,) * 4)


def test_a_game_in_turns_has_to_mask_its_actions(here: Path) -> None:
    with pytest.raises(Refused, match="counting: its agents take turns, and it"):
        describe("pettingzoo:saying_numbers(where='nowhere')")
