"""SuperSuit's vector environments: the agents of PettingZoo's parallel environments, as rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space, iterate
from numpy.typing import NDArray

from artos.errors import BadRow

_PACKAGE = "supersuit."


def is_supersuit(made: Any) -> bool:
    """Whether it is a vector environment of SuperSuit's, which has only the spaces of one row."""
    ours = type(made).__module__.startswith(_PACKAGE)
    return ours and hasattr(made, "num_envs") and not hasattr(made, "single_observation_space")


class AgentRows(VectorEnv[Any, Any, Any]):
    """What ``concat_vec_envs_v1`` and ``pettingzoo_env_to_vec_env_v1`` return, for Gymnasium.

    Each agent is a row, with its own rewards; one policy plays all of them. The agents of a game
    must end together: rows of an agent that is out while others play are not transitions.
    """

    def __init__(self, env: Any) -> None:
        self._env = env
        self.num_envs = int(env.num_envs)
        self.metadata = {**env.metadata, "autoreset_mode": AutoresetMode.SAME_STEP}
        self.single_observation_space = env.observation_space
        self.single_action_space = env.action_space
        self.observation_space = batch_space(env.observation_space, self.num_envs)
        self.action_space = batch_space(env.action_space, self.num_envs)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin all games again."""
        return self._env.reset(seed=seed, options=options)[0], {}

    def step(
        self, actions: Any
    ) -> tuple[Any, NDArray[Any], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Step all games; those that end are reset at once, with ``final_obs`` as in Gymnasium.

        Raises:
            BadRow: an agent's episode ended while another agent of its game plays on.
        """
        acts = np.stack(list(iterate(self.action_space, actions)))
        obs, rewards, terminated, truncated, infos = self._env.step(acts)
        terminations, truncations = np.asarray(terminated, bool), np.asarray(truncated, bool)
        over = terminations | truncations
        if not over.any():
            return obs, np.asarray(rewards), terminations, truncations, {}
        final = np.full(self.num_envs, None, object)
        for row in np.flatnonzero(over):
            final[row] = infos[row].get("terminal_observation")
            if final[row] is None:
                raise BadRow("terminations", 0, 0, _APART.format(row))
        return obs, np.asarray(rewards), terminations, truncations, {"final_obs": final}

    def close_extras(self, **kwargs: Any) -> None:
        """Close all games."""
        self._env.close()


_APART = (
    "agent {} of SuperSuit's environment is out while others of its game play on, so its rows "
    "would be no transitions: use a game whose agents end together, or a gymnasium.Env of one agent"
)
