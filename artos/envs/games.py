"""Games of several agents in the parallel form of PettingZoo, each agent a row of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate
from numpy.typing import NDArray

from artos.envs.settable import Coming
from artos.envs.spec import ABSENT, AGENTS, MASK, NAMES
from artos.errors import BadRow, Refused
from artos.specs.named import WHO_SEPARATES
from artos.system.random_streams import seed_of

Flags = NDArray[np.bool_]


def is_game(made: Any) -> bool:
    """Whether it has the parallel interface: all agents act at once, by name."""
    named = isinstance(getattr(made, "possible_agents", None), list)
    return named and callable(getattr(made, "step", None)) and not hasattr(made, "agent_iter")


class Games:
    """Games that are stepped together, of the same agents; each agent of each game has a row.

    Rows are in the order of the games, then of ``possible_agents``. A game begins again in the step
    after its last agent is out. An agent that is out while others play, or has not come yet, is
    terminated until it comes (back) or the game begins again: its rows are no transitions.
    """

    def __init__(self, games: Sequence[Any]) -> None:
        self.games = games
        self.agents: tuple[Any, ...] = tuple(games[0].possible_agents)
        rows = len(games) * len(self.agents)
        self.seen: list[Any] = [None] * rows
        self.masks: list[Any] = [None] * rows
        self.out = np.zeros(rows, bool)
        self.rewards, (self.terminations, self.truncations) = (
            np.zeros(rows),
            np.zeros((2, rows), bool),
        )
        self.coming = Coming(len(games))
        """Settings that each game takes over when it begins again."""
        self._chosen: dict[int, Any] = {}
        self._blank: dict[Any, Any] = {}
        self._closed = False

    def reset(self, seeds: Sequence[int | None], options: dict[str, Any] | None = None) -> None:
        """Begin all games, each with its seed.

        Raises:
            BadRow: no agent is there.
        """
        self._chosen.clear()
        for number, seed in enumerate(seeds):
            if seed is not None:  # of agents that nobody plays, which do anything
                for at, agent in enumerate(self.agents):
                    self.games[number].action_space(agent).seed(seed_of(seed, at))
            self._begin(number, seed, options)

    def _begin(self, number: int, seed: int | None, options: dict[str, Any] | None = None) -> None:
        game = self.games[number]
        self.coming.begin(number, game)
        seen, infos = game.reset(seed=seed, options=options)
        if not any(agent in seen for agent in self.agents):
            raise BadRow("observations", 0, 0, _NOBODY)
        self._take(number, seen, infos)
        for row, agent in self.rows(number):
            self.out[row] = agent not in seen
            if agent not in seen:
                self.seen[row], self.masks[row] = self._nothing(game, agent), None

    def _nothing(self, game: Any, agent: Any) -> Any:
        """Something of its space, for an agent that sees nothing yet."""
        if agent not in self._blank:
            space = deepcopy(game.observation_space(agent))
            space.seed(0)
            self._blank[agent] = space.sample()
        return self._blank[agent]

    def _take(self, number: int, seen: Any, infos: Any) -> None:
        for row, agent in self.rows(number):
            if agent in seen:
                self.seen[row] = seen[agent]
                self.masks[row] = infos.get(agent, {}).get(MASK)

    def rows(self, number: int) -> list[tuple[int, Any]]:
        """The rows of a game, and their agents."""
        return [*enumerate(self.agents, number * len(self.agents))]

    def choose(self, rows: NDArray[np.int64], actions: Sequence[Any]) -> None:
        """What the agents of some rows do in the next step."""
        self._chosen.update(zip(rows.tolist(), actions, strict=True))

    def step(self) -> None:
        """Step the games that are on, and begin those that are over.

        Raises:
            BadRow: a game leaves out an agent that acted.
        """
        was = self.out.copy()
        self.rewards[:], self.terminations[:], self.truncations[:] = 0.0, False, False
        for number, game in enumerate(self.games):
            rows = self.rows(number)
            if all(was[row] for row, _ in rows):
                self._begin(number, None)
                continue
            there = {agent: row for row, agent in rows if not was[row]}
            found = game.step(
                {agent: self._action(game, agent, row) for agent, row in there.items()}
            )
            self._take(number, found[0], found[4])
            for row, agent in rows:
                if agent not in there:
                    over = found[2].get(agent) or found[3].get(agent)  # it may be listed still
                    self.out[row] = over or not (agent in game.agents and agent in found[0])
                    continue
                if any(agent not in each for each in found[:4]):
                    raise BadRow("rewards", 0, 0, _LOST.format(agent))
                if np.size(found[1][agent]) != 1:
                    raise BadRow("rewards", 0, 0, _MANY.format(agent, np.shape(found[1][agent])))
                self.rewards[row] = found[1][agent]
                self.terminations[row], self.truncations[row] = found[2][agent], found[3][agent]
                self.out[row] = self.terminations[row] or self.truncations[row]
        self._chosen.clear()
        self.terminations |= self.out & ~self.truncations
        for at in np.flatnonzero(self.out & ~was):  # the game may write into it while it goes on
            self.seen[at] = deepcopy(self.seen[at])

    def _action(self, game: Any, agent: Any, row: int) -> Any:
        """What was chosen, or anything that is allowed for an agent that nobody plays."""
        if row in self._chosen:
            return self._chosen[row]
        mask, seen = self.masks[row], self.seen[row]
        if isinstance(seen, Mapping):
            mask = seen.get(MASK, mask)
        space = game.action_space(agent)
        if mask is None:
            return space.sample()
        allowed: Any = np.asarray(mask, np.int8)
        if isinstance(space, spaces.MultiDiscrete):
            allowed = tuple(np.split(allowed, np.cumsum(space.nvec)[:-1]))
        return space.sample(allowed)

    def close(self) -> None:
        """Close all games. May be called twice."""
        for game in () if self._closed else self.games:
            game.close()
        self._closed = True


class GameRows(VectorEnv[Any, Any, Any]):
    """Games for Gymnasium: one policy plays all agents, or ``only`` some, each from its own row.

    With ``at`` it has those rows of the games, if other agents are played in each. Agents that no
    one plays do anything. Several of these may share their games: then one of them
    ``leads``. It is reset and stepped first, and the others, who have ``offered`` their actions
    before, tell what came of that.

    Raises:
        Refused: the games have no agents, or none of these names, or they have different spaces.
    """

    def __init__(
        self, name: str, games: Games | Sequence[Any], only: Sequence[Any] = (), *,
        at: NDArray[np.int64] | None = None, leads: bool = True,
    ) -> None:  # fmt: skip
        self._games = games if isinstance(games, Games) else Games(games)
        self._leads, first, known = leads, self._games.games[0], self._games.agents
        self.agents: tuple[Any, ...] = tuple(each for each in known if not only or each in only)
        if why := "; ".join(_faults(first, self.agents, only)):
            self.close_extras()
            raise Refused([f"environment {name}: {why}"])
        each = [n for n, agent in enumerate(known) if agent in self.agents]
        firsts = np.arange(len(self._games.games)) * len(known)
        self.at = (firsts[:, None] + np.array(each)).ravel() if at is None else at
        """Which rows of the games these are."""
        self.num_envs = len(self.at)
        reset = AutoresetMode.NEXT_STEP
        self.metadata = {
            **first.metadata, "autoreset_mode": reset, AGENTS: len(self.agents),
            NAMES: tuple(str(agent) for agent in self.agents),
        }  # fmt: skip
        self.single_observation_space = first.observation_space(self.agents[0])
        self.single_action_space = first.action_space(self.agents[0])
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    @property
    def coming(self) -> Coming:
        """Settings that each game takes over when it begins again."""
        return self._games.coming

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin all games, each with the seed of its first row.

        Raises:
            BadRow: no agent is there.
        """
        if self._leads:
            firsts = range(0, self.num_envs, len(self.agents))
            self._games.reset(
                [
                    seed[at] if isinstance(seed, list) else None if seed is None else seed + at
                    for at in firsts
                ],
                options,
            )
        return self._observations(), {**self._info(), ABSENT: self._games.out[self.at]}

    def offer(self, actions: Any) -> None:
        """Say what these agents do in the next step."""
        self._games.choose(self.at, [*iterate(self.action_space, actions)])

    def step(self, actions: Any) -> tuple[Any, NDArray[Any], Flags, Flags, dict[str, Any]]:
        """Step the games that are on, and begin those that are over."""
        if self._leads:
            self.offer(actions)
            self._games.step()
        of, at = self._games, self.at
        ends = of.terminations[at], of.truncations[at]
        return self._observations(), of.rewards[at], *ends, self._info()

    def _observations(self) -> Any:
        space, seen = self.single_observation_space, [self._games.seen[at] for at in self.at]
        return concatenate(space, seen, create_empty_array(space, self.num_envs))  # type: ignore[arg-type]

    def _info(self) -> dict[str, Any]:
        """The masks of actions, where the games give them; one that is out may do anything."""
        masks = [self._games.masks[at] for at in self.at]
        given = next((np.asarray(mask) for mask in masks if mask is not None), None)
        if given is None:
            return {}
        free = np.ones_like(given)
        rows = zip(masks, self._games.out[self.at], strict=True)
        return {MASK: np.stack([free if out or mask is None else mask for mask, out in rows])}

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """An attribute of every game, behind its wrappers."""
        return tuple(getattr(game.unwrapped, name) for game in self._games.games)

    def close_extras(self, **kwargs: Any) -> None:
        """Close all games."""
        self._games.close()


def _faults(game: Any, agents: Sequence[Any], only: Sequence[Any]) -> Iterator[str]:
    if not game.possible_agents:
        yield "the game has no agents (possible_agents is empty)"
        return
    for name in only:
        if name not in game.possible_agents:
            known = [str(each) for each in game.possible_agents]
            yield f"it has no agent {name!r}: these are {', '.join(known)}"
    for what, space in (("observations", game.observation_space), ("actions", game.action_space)):
        spaces: dict[str, list[str]] = {}
        for agent in agents:
            spaces.setdefault(str(space(agent)), []).append(str(agent))
        if len(spaces) > 1:
            each = "; ".join(f"{', '.join(who)}: {which}" for which, who in spaces.items())
            yield (
                f"one policy plays all agents, and their {what} differ ({each}): have several "
                f"policies play them (--set agents=separate, which {WHO_SEPARATES} have, or an "
                "AgentsActor: docs/how-to/agents.md), or let a factory "
                "return the game with SuperSuit's pad_observations_v0 and pad_action_space_v0"
            )


_MANY = (
    "the reward of agent {} is an array of shape {}, and learners take a single number: let the "
    "game return one, e.g. a weighted sum"
)
_NOBODY = "no agent is there when the game begins: let reset return observations of those that are"
_LOST = (
    "agent {} acted, and the game returns no observation, reward, termination and truncation for "
    "it: let step return those of an agent that leaves, too, with termination or truncation true"
)
