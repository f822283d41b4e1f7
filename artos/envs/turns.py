"""Games in which agents take turns (PettingZoo's AEC form), as games in which all act at once."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from artos.envs.spec import MASK
from artos.errors import Refused

_UTILS = "pettingzoo.utils"
"""Imported with any of its games; nothing else needs it."""


def is_in_turns(made: Any) -> bool:
    """Whether its agents act one after the other."""
    return (
        _UTILS in sys.modules and hasattr(made, "agent_iter") and hasattr(made, "possible_agents")
    )


class InTurns:
    """Its parallel form: in each step one agent moves, and all others have a single action to take.

    That one does nothing, and the mask of actions allows no other. So nothing is learned of it, but
    what came of the move of whoever was at its turn.

    Raises:
        Refused: the game masks no actions, so one that does nothing could be learned like any.
    """

    def __init__(self, game: Any) -> None:
        parallel = sys.modules[_UTILS].turn_based_aec_to_parallel
        self._aec, self._game = game, parallel(game)
        self.possible_agents: list[Any] = list(game.possible_agents)
        self.agents: list[Any] = []
        self.metadata = game.metadata
        self.observation_space, self.action_space = game.observation_space, game.action_space
        self.close = game.close

    @property
    def unwrapped(self) -> Any:
        """The game itself."""
        return self._aec.unwrapped

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[Any, Any]:
        """Begin again."""
        seen, infos = self._game.reset(seed=seed, options=options)
        return self._waiting(seen, infos)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, Any]:
        """Let the agent whose turn it is move."""
        seen, rewards, terminations, truncations, infos = self._game.step(actions)
        seen, infos = self._waiting(seen, infos)
        return seen, rewards, terminations, truncations, infos

    def _waiting(self, seen: Any, infos: Any) -> tuple[Any, Any]:
        """With masks that leave one action to those whose turn it is not."""
        self.agents = list(self._game.agents)
        found, told = {}, {}
        for agent, obs in seen.items():
            found[agent], told[agent] = obs, {**infos.get(agent, {})}
            of = obs if isinstance(obs, Mapping) and MASK in obs else told[agent]
            if (mask := of.get(MASK)) is None:
                raise Refused([_UNMASKED.format(self.metadata.get("name", "the game"))])
            if agent != self._aec.agent_selection:
                mask = np.zeros_like(mask)
                mask[0] = 1
            if of is obs:
                found[agent] = {**obs, MASK: mask}
            else:
                told[agent][MASK] = mask
        return found, told


_UNMASKED = (
    f"{{}}: its agents take turns, and it does not say by {MASK}, in a Dict observation or in "
    "info, which actions may be chosen; so whoever waits would learn from actions that do nothing: "
    "let it say so, or write a gymnasium.Env that plays the other agents"
)
