"""Games of several agents: each agent a row, out while others play, begun again together."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from games_for_tests import Guessing
from gymnasium import spaces

from artos.actors.rollout import RolloutActor
from artos.envs.games import GameRows, is_game
from artos.envs.make import describe, make_vector
from artos.envs.stepper import Stepper
from artos.errors import BadRow, Refused
from deploy.local.run import run
from head.run.request import Request


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of a user's with the game."""
    shutil.copy(Path(__file__).with_name("games_for_tests.py"), tmp_path / "guessing.py")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def cues(obs: Any) -> Any:
    return obs["observations"][:, 0].astype(int)


def test_rows_of_an_agent_that_is_out_are_no_transitions() -> None:
    stepper = Stepper(GameRows("guessing", [Guessing(2), Guessing(2)]))
    obs = stepper.reset(seed=5)
    rows = []
    for _ in range(5):
        asked = cues(obs)
        step = stepper.step(asked)
        rows.append((step.valid.tolist(), step.terminations.tolist(), step.rewards.tolist()))
        obs = step.obs
    twice = [
        ([True, True], [False, False], [1.0, 1.0]),
        ([True, True], [True, False], [1.0, 1.0]),
        ([False, True], [True, True], [0.0, 1.0]),  # agent 0 waits for agent 1
        ([False, False], [False, False], [0.0, 0.0]),  # both begin again
        ([True, True], [False, False], [1.0, 1.0]),
    ]
    assert rows == [(v * 2, t * 2, r * 2) for v, t, r in twice]
    returns, lengths = stepper.drain_episodes()
    assert sorted(zip(returns, lengths, strict=True)) == [(2.0, 2), (2.0, 2), (3.0, 3), (3.0, 3)]


def test_the_last_observation_of_an_agent_stays_what_it_was() -> None:
    """The game writes into its array while others play."""
    stepper = Stepper(GameRows("guessing", [Guessing(2)]))
    obs = stepper.reset(seed=0)
    for _ in range(2):
        step = stepper.step(cues(obs))
        obs = {name: part.copy() for name, part in step.obs.items()}
    assert step.final is not None
    assert step.final["observations"][0, 1:].tolist() == [2, 0]
    step = stepper.step(cues(obs))
    assert step.obs["observations"][:, 1].tolist() == [2, 3]


def test_a_seed_decides_games_and_each_has_its_own() -> None:
    def seen(seed: int) -> list[Any]:
        stepper = Stepper(GameRows("guessing", [Guessing(3) for _ in range(4)]))
        obs, found = stepper.reset(seed=seed), []
        for _ in range(12):
            found.append(obs["observations"].tolist())
            obs = stepper.step(np.zeros(12, np.int64)).obs
        return found

    assert seen(3) == seen(3) != seen(4)
    first = np.array(seen(3)[0])[:, 0].reshape(4, 3)
    assert len({tuple(game) for game in first.tolist()}) > 1


def test_masks_are_those_of_the_agents_that_play() -> None:
    stepper = Stepper(GameRows("guessing", [Guessing(2, masked=True)]), masked=True)
    obs = stepper.reset(seed=1)
    mask = "observations.action_mask"
    own = np.eye(2, dtype=bool)[cues(obs)].tolist()
    assert obs[mask].astype(bool).tolist() == own
    for _ in range(2):
        obs = stepper.step(cues(obs)).obs
    assert obs[mask].astype(bool).tolist() == [[True, True], own[1]], "who is out may do anything"


def test_agents_come_and_go_and_come_back() -> None:
    """Agent 0 comes in step 1, is out in step 2, comes back in step 3 and is out in step 4."""
    stepper = Stepper(GameRows("guessing", [Guessing(3, late=True)]))
    obs, rows = stepper.reset(seed=5), []
    for _ in range(6):
        step = stepper.step(cues(obs))
        rows.append((step.valid.tolist(), step.terminations.tolist()))
        obs = step.obs
    assert rows == [
        ([False, True, True], [False, False, False]),  # it comes
        ([True, True, True], [True, False, False]),
        ([False, True, True], [False, True, False]),  # it comes back
        ([True, False, True], [True, True, True]),
        ([False, False, False], [True, False, False]),  # all begin again, and it is not there
        ([False, True, True], [False, False, False]),
    ]
    assert stepper.drain_episodes() == ((1.0, 3.0, 1.0, 4.0), (1, 3, 1, 4))
    assert stepper.rows == (0, 1, 0, 2)


class Lingering(Guessing):
    """Goes on listing who is out, as terminated, until all are."""

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, Any]:
        self.agents = [*actions]
        seen, rewards, over, cut, infos = super().step(actions)
        if self.agents:
            self.agents, seen = [*self.possible_agents], {**self._seen}
            over = dict.fromkeys(self.agents, True) | over
            rewards, cut = (dict.fromkeys(self.agents, 0) | each for each in (rewards, cut))
        return seen, rewards, over, cut, infos


def test_who_is_out_does_not_come_back_by_being_listed() -> None:
    rows: list[Any] = []
    for kind in (Guessing, Lingering):
        stepper = Stepper(GameRows("guessing", [kind(4)]))
        obs = stepper.reset(seed=5)
        steps = [stepper.step(np.zeros(len(cues(obs)), np.int64)) for _ in range(8)]
        told = [[each.valid, each.terminations, each.rewards] for each in steps]
        rows.append((np.array(told).tolist(), stepper.drain_episodes()))
    assert rows[0] == rows[1]


class Leaving(Guessing):
    """Agent 0 is gone after a step without a word."""

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, Any]:
        found = super().step(actions)
        for each in found[:4]:
            each.pop("agent_0", None)
        return found


def test_who_leaves_without_a_word_is_named() -> None:
    stepper = Stepper(GameRows("guessing", [Leaving(2)]))
    stepper.reset(seed=0)
    with pytest.raises(BadRow, match="agent agent_0 acted, and the game returns no observation"):
        stepper.step(np.zeros(2, np.int64))


class Weighing(Guessing):
    """Has two rewards in place of one."""

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, Any]:
        seen, rewards, *rest = super().step(actions)
        return seen, {agent: np.full(2, value) for agent, value in rewards.items()}, *rest  # type: ignore[return-value]


def test_rewards_of_several_numbers_are_refused_by_the_agents_name() -> None:
    stepper = Stepper(GameRows("guessing", [Weighing(2)]))
    stepper.reset(seed=0)
    with pytest.raises(BadRow, match=r"reward of agent agent_0 is an array of shape \(2,\)"):
        stepper.step(np.zeros(2, np.int64))


def test_a_policy_plays_some_agents_while_the_others_do_anything() -> None:
    rows = GameRows("guessing", [Guessing(3, masked=True) for _ in range(2)], ("agent_2",))
    stepper = Stepper(rows, masked=True)
    obs = stepper.reset(seed=1)
    assert (rows.num_envs, rows.agents, rows.at.tolist()) == (2, ("agent_2",), [2, 5])
    lengths = []
    for _ in range(10):
        obs = stepper.step(cues(obs)).obs
        assert set(obs["observations"][:, 2].tolist()) == {2.0}
        lengths += stepper.drain_episodes()[1]
    assert lengths == [4, 4, 4, 4], "masks of the others were kept, or they would not repeat cues"
    with pytest.raises(Refused, match=r"has no agent 'agent_9': these are agent_0"):
        GameRows("guessing", [Guessing(3)], ("agent_9",))


class Counted(Guessing):
    """Keeps what its agents do, who choose twice each: of two and of three."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.done: list[list[tuple[int, ...]]] = []

    def action_space(self, agent: str) -> Any:
        self._spaces = getattr(self, "_spaces", {})
        return self._spaces.setdefault(agent, spaces.MultiDiscrete([2, 3]))

    def _infos(self) -> Any:
        return {agent: {"action_mask": np.array([1, 1, 0, 1, 1], np.int8)} for agent in self.agents}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, Any]:
        self.done.append([tuple(np.asarray(action).tolist()) for action in actions.values()])
        return super().step(dict.fromkeys(actions, 0))


def test_agents_that_nobody_plays_choose_each_by_themselves_and_what_is_allowed() -> None:
    game = Counted(4)
    rows = GameRows("counted", [game], ("agent_3",))
    rows.reset(seed=[5])
    for _ in range(40):
        rows.step(np.ones((1, 2), np.int64))
    chosen = [each for each in game.done if len(each) == 4]
    assert all(second > 0 for each in chosen for _, second in each), "their masks forbid 0"
    assert any(len({*each[:3]}) > 1 for each in chosen)


def test_agents_of_different_spaces_are_refused_and_the_game_is_closed() -> None:
    game = Guessing(3, uneven=True)
    words = r"agent_0, agent_2: Box.*; agent_1: Box.*"
    words += r"agents=separate, which all .* but apex, es and grpo have.*pad_observations_v0"
    with pytest.raises(Refused, match=words):
        GameRows("guessing", [game])
    assert game.closed
    with pytest.raises(Refused, match="has no agents"):
        GameRows("guessing", [Guessing(0)])


def test_what_is_a_game() -> None:
    assert is_game(Guessing())
    assert not is_game(object())


# -- by its address --------------------------------------------------------------------------------


def test_a_game_of_the_users_own_by_its_address(here: Path) -> None:
    assert describe("pettingzoo:guessing").agents == 3
    made = make_vector("pettingzoo:guessing(agents=2)", 6)
    assert isinstance(made, GameRows)
    assert (made.num_envs, made.agents) == (6, ("agent_0", "agent_1"))
    made.close()


@pytest.mark.parametrize(
    ("env", "why"),
    [
        ("pettingzoo:guessing(players=2)", "takes no argument 'players'.*agents, masked, uneven"),
        ("pettingzoo:nothing", "no module nothing in this folder or in PettingZoo"),
        ("pettingzoo:json", "has no parallel_env.*for a game in turns"),
        ("pettingzoo:guessing(uneven=True)", "one policy plays all agents, and their observations"),
    ],
)
def test_what_cannot_be_made_is_refused_with_the_reason(here: Path, env: str, why: str) -> None:
    with pytest.raises(Refused, match=why):
        describe(env)


def test_environments_are_a_multiple_of_the_agents(here: Path) -> None:
    with pytest.raises(
        Refused, match="3 agents, a row for each: set envs to a multiple of 3, not 4"
    ):
        RolloutActor("pettingzoo:guessing", envs=4).data_keys()
    assert "valid" in {key.name for key in RolloutActor("pettingzoo:guessing", envs=3).data_keys()}


@pytest.mark.parametrize("algorithm", ["ppo", pytest.param("dqn", marks=pytest.mark.long)])
def test_all_agents_learn_with_one_policy(here: Path, algorithm: str) -> None:
    """Whoever repeats its cue gets 2, 3 and 4: the best mean is 3, that of guessing 1.5."""
    own: dict[str, Any] = {"after": 200} if algorithm == "dqn" else {"lr": 3e-3, "steps": 32}
    settings = {"env": "pettingzoo:guessing", "envs": 6, "total_steps": 6_000, "hidden": (16,)}
    summary = run(Request(algorithm, settings | own, 1, here / "r", True, True, folder=here))
    assert summary.status.mean_return_100 > 2.5
