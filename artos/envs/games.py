"""Games of several agents in the parallel form of PettingZoo, each agent a row of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate
from numpy.typing import NDArray

from artos.envs.settable import Coming
from artos.envs.spec import AGENTS, MASK
from artos.errors import BadRow, Refused

Flags = NDArray[np.bool_]


def is_game(made: Any) -> bool:
    """Whether it has the parallel interface: all agents act at once, by name."""
    named = isinstance(getattr(made, "possible_agents", None), list)
    return named and callable(getattr(made, "step", None)) and not hasattr(made, "agent_iter")


class GameRows(VectorEnv[Any, Any, Any]):
    """Games for Gymnasium: one policy plays all agents, each from its own row.

    Rows are in the order of the games, then of ``possible_agents``. A game begins again in the step
    after its last agent is out. An agent that is out while others play stays terminated until then,
    with its last observation: its rows are no transitions.

    Raises:
        Refused: the games have no agents, or agents of different spaces.
    """

    def __init__(self, name: str, games: Sequence[Any]) -> None:
        self._games, first = games, games[0]
        self.agents: tuple[Any, ...] = tuple(first.possible_agents)
        if why := "; ".join(_faults(first)):
            self.close_extras()
            raise Refused([f"environment {name}: {why}"])
        self.num_envs = len(games) * len(self.agents)
        reset = AutoresetMode.NEXT_STEP
        self.metadata = {**first.metadata, "autoreset_mode": reset, AGENTS: len(self.agents)}
        self.single_observation_space = first.observation_space(self.agents[0])
        self.single_action_space = first.action_space(self.agents[0])
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._seen: list[Any] = [None] * self.num_envs
        self._masks: list[Any] = [None] * self.num_envs
        self._out = np.zeros(self.num_envs, bool)
        self.coming = Coming(len(games))
        """Settings that each game takes over when it begins again."""

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin all games, each with the seed of its first row.

        Raises:
            BadRow: an agent is not there from the beginning.
        """
        self._out[:] = False
        for number in range(len(self._games)):
            first = number * len(self.agents)
            given = (
                seed[first] if isinstance(seed, list) else None if seed is None else seed + first
            )
            self._begin(number, given, options)
        return self._observations(), self._info()

    def _begin(self, number: int, seed: int | None, options: dict[str, Any] | None = None) -> None:
        self.coming.begin(number, self._games[number])
        seen, infos = self._games[number].reset(seed=seed, options=options)
        if absent := [agent for agent in self.agents if agent not in seen]:
            raise BadRow("observations", 0, 0, _LATE.format(absent[0]))
        self._take(number, seen, infos)

    def _take(self, number: int, seen: Any, infos: Any) -> None:
        for row, agent in self._rows(number):
            if agent in seen:
                self._seen[row] = seen[agent]
                self._masks[row] = infos.get(agent, {}).get(MASK)

    def _rows(self, number: int) -> list[tuple[int, Any]]:
        return [*enumerate(self.agents, number * len(self.agents))]

    def step(self, actions: Any) -> tuple[Any, NDArray[Any], Flags, Flags, dict[str, Any]]:
        """Step the games that are on, and begin those that are over."""
        acts = [*iterate(self.action_space, actions)]
        rewards = np.zeros(self.num_envs)
        terminations, truncations = np.zeros((2, self.num_envs), bool)
        for number, game in enumerate(self._games):
            rows = self._rows(number)
            if all(self._out[row] for row, _ in rows):
                self._begin(number, None)
                continue
            there = {agent: row for row, agent in rows if not self._out[row]}
            found = game.step({agent: acts[row] for agent, row in there.items()})
            self._take(number, found[0], found[4])
            terminations[[row for row, _ in rows if self._out[row]]] = True
            for agent, row in there.items():
                rewards[row] = found[1][agent]
                terminations[row], truncations[row] = found[2][agent], found[3][agent]
        was, self._out = self._out, terminations | truncations
        for at in np.flatnonzero(self._out & ~was):  # the game may write into it while it goes on
            self._seen[at] = deepcopy(self._seen[at])
        return self._observations(), rewards, terminations, truncations, self._info()

    def _observations(self) -> Any:
        space = self.single_observation_space
        return concatenate(space, self._seen, create_empty_array(space, self.num_envs))  # type: ignore[arg-type]

    def _info(self) -> dict[str, Any]:
        """The masks of actions, where the games give them; one that is out may do anything."""
        given = next((np.asarray(mask) for mask in self._masks if mask is not None), None)
        if given is None:
            return {}
        free = np.ones_like(given)
        rows = zip(self._masks, self._out, strict=True)
        return {MASK: np.stack([free if out or mask is None else mask for mask, out in rows])}

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """An attribute of every game, behind its wrappers."""
        return tuple(getattr(game.unwrapped, name) for game in self._games)

    def close_extras(self, **kwargs: Any) -> None:
        """Close all games."""
        for game in self._games:
            game.close()


def _faults(game: Any) -> Iterator[str]:
    if not game.possible_agents:
        yield "the game has no agents (possible_agents is empty)"
        return
    for what, space in (("observations", game.observation_space), ("actions", game.action_space)):
        spaces: dict[str, list[str]] = {}
        for agent in game.possible_agents:
            spaces.setdefault(str(space(agent)), []).append(str(agent))
        if len(spaces) > 1:
            each = "; ".join(f"{', '.join(who)}: {which}" for which, who in spaces.items())
            yield (
                f"one policy plays all agents, and their {what} differ ({each}): let a factory "
                "return the game with SuperSuit's pad_observations_v0 and pad_action_space_v0"
            )


_LATE = (
    "agent {} is not there when the game begins: use a game in which all of possible_agents are, "
    "and none comes later"
)
