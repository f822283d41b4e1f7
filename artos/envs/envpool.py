"""Environments of EnvPool by their ids: many in one pool, which C++ steps and resets."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import envpool
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from artos.envs.spec import ATARI, PADDING, STACK
from artos.errors import Refused
from artos.system.closest import closest

_ELSEWHERE = {
    "batch_size": "all environments of an actor are stepped together",
    "env_seed": "seeds are those of the run",
    "gym_reset_return_info": "what resets return is not ours to change",
    "max_num_players": "one agent acts in each environment",
    "reward_clip": "returns would be those of clipped rewards: --set clip_rewards=true",
    "episodic_life": "returns would be those of single lives: --set terminal_lives=true",
    "zero_discount_on_life_loss": "--set terminal_lives=true is what does that",
}
"""Settings of pools that are not given here, and why."""


def pooling(name: str) -> Callable[..., Pool]:
    """A factory of pools of EnvPool's environment ``name``; it takes the settings of such a pool.

    Raises:
        Refused: there is no such environment, or several agents act in it.
    """
    env = f"environment envpool:{name}"
    if name not in (known := envpool.list_all_envs()):
        raise Refused([f"{env}: EnvPool has no {name!r}{closest(name, known)}"])
    usual = envpool.make_spec(name).config._asdict()
    if usual["max_num_players"] > 1:
        raise Refused([f"{env}: several agents act in it, and here one does: choose another"])
    given = usual.keys() - _ELSEWHERE.keys() - {"num_envs", "seed"}

    def opened(num_envs: int, seed: int = 0, **settings: Any) -> Pool:
        faults = [
            f"{env}: leave {each} out: {_ELSEWHERE[each]}"
            for each in sorted(settings.keys() & _ELSEWHERE.keys())
        ]
        words, has = sorted({*given, *_ELSEWHERE}), f"it has {', '.join(sorted(given))}"
        faults += [
            f"{env} has no setting {each!r}{closest(each, words)} ({has})"
            for each in sorted(settings.keys() - words)
        ]
        if faults:
            raise Refused(faults)
        return Pool(name, num_envs, seed, settings)

    return opened


@contextmanager
def _quietly() -> Iterator[None]:
    """Without warnings of bounds whose dtype is not their space's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class Pool(VectorEnv[Any, Any, Any]):
    """A pool that takes the seeds of its resets.

    EnvPool takes seeds only as a pool is made, so a reset with seeds makes it anew. Its
    environments are stepped by one thread: more processes act, not more threads of one.
    """

    def __init__(
        self, name: str, num_envs: int, seed: int = 0, settings: Mapping[str, Any] | None = None
    ) -> None:
        self._name, self._settings = name, {"num_threads": 1} | dict(settings or {})
        self.num_envs = num_envs
        self._seed, self._pool = seed, None  # it is made by the first reset, which has seeds
        spec = envpool.make_spec(name, **self._settings)
        with _quietly():
            self.single_observation_space = spec.gymnasium_observation_space
            self.single_action_space = spec.gymnasium_action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}
        if type(spec).__name__.startswith("Atari"):
            self.metadata[ATARI] = True
            if spec.config.gray_scale and spec.config.stack_num > 1:
                self.metadata |= {STACK: spec.config.stack_num, PADDING: "first"}

    _pool: Any

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Begin all episodes anew; with seeds, as a pool does that was made with them."""
        if seed is not None or self._pool is None:
            begin = self._seed if seed is None else seed
            each = range(begin, begin + self.num_envs) if isinstance(begin, int) else begin
            self.close_extras()
            settings = self._settings | {"num_envs": self.num_envs, "seed": [*each]}
            with _quietly():
                self._pool = envpool.make_gymnasium(self._name, **settings)
                _ = self._pool.observation_space  # which it makes once
        obs, info = self._pool.reset()
        return obs, info

    def step(
        self, actions: Any
    ) -> tuple[Any, NDArray[Any], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Step all; one whose episode ended is reset instead."""
        obs, rewards, terminations, truncations, info = self._pool.step(actions)
        return obs, rewards, terminations, truncations, info

    def close_extras(self, **given: Any) -> None:
        """End the pool's threads."""
        if self._pool is not None:
            self._pool.close()
