"""An OpenEnv environment, with the base classes of its package: name the signal that is shown."""

from __future__ import annotations

import os
import random
from typing import Any, Literal

from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State
from pydantic import Field

SESSIONS = int(os.environ.get("SESSIONS", "16"))


class Answer(Action):
    signal: Literal["red", "amber", "green"]
    comment: str = ""


class Shown(Observation):
    signal: Literal["red", "amber", "green"]
    lamps: list[float] = Field(min_length=3, max_length=3)
    left: int = Field(ge=0, le=8)
    said: str = ""


class Signals(Environment[Answer, Shown, State]):
    """Eight signals an episode; 1 for each that is named. A seed decides which."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    NAMES = ("red", "amber", "green")

    def __init__(self) -> None:
        super().__init__()
        self._state = State()
        print("a session begins", flush=True)

    def close(self) -> None:
        print("a session is over", flush=True)

    def reset(self, seed: int | None = None, episode_id: str | None = None, **_: Any) -> Shown:
        self._state = State(episode_id=episode_id, step_count=0)
        self._random = random.Random(seed)
        return self._next(None)

    def step(self, action: Answer, timeout_s: float | None = None, **_: Any) -> Shown:
        self._state.step_count += 1
        return self._next(float(action.signal == self._signal))

    def _next(self, reward: float | None) -> Shown:
        self._signal = self._random.choice(self.NAMES)
        left = 8 - self._state.step_count
        lamps = [float(name == self._signal) for name in self.NAMES]
        return Shown(signal=self._signal, lamps=lamps, left=left, reward=reward, done=left == 0)

    @property
    def state(self) -> State:
        return self._state


app = create_app(Signals, Answer, Shown, env_name="signals", max_concurrent_envs=SESSIONS)
