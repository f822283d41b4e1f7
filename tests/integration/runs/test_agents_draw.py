"""Agents of several policies whose learners draw from replay, or learn from whole episodes."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
import torch
from drawers import AFTER, BATCH, EPISODES, RATIO
from helpers import ROOT
from inline_runs import commanded, registered
from real_runs import Artos, kill_each

import artos
from artos.errors import Refused
from artos.runs.checkpoint import read_manifest
from artos.runs.data_sets import read
from artos.runs.loader import load_workload
from artos.specs.members import Member

HERE = Path(__file__).parent
GAMES = ROOT / "tests" / "artos" / "envs" / "games_for_tests.py"
WORKLOAD = "drawers.py:workload"
POLICIES = {"middle": 2, "others": 4}
"""With the agents of each that an actor steps."""


@pytest.fixture
def folder(home: Path) -> Path:
    with_drawers(home)
    return home


def with_drawers(home: Path) -> None:
    for name in ("guessers.py", "drawers.py", "near_numbers.py"):
        shutil.copy(HERE / name, home)
    shutil.copy(GAMES, home / "guessing.py")


SMALL = ("--set", "agents=separate", "--set", "hidden=32", "--set", "after=100")
GUESSING = ("--env", "pettingzoo:guessing(uneven=True)", "--set", "envs=6")
NEAR = ("--env", "pettingzoo:near_numbers", "--set", "envs=2")


@pytest.mark.parametrize(
    "algorithm",
    ["dqn", *(pytest.param(name, marks=pytest.mark.long) for name in ("rainbow", "r2d2", "sac"))],
)
def test_each_agent_has_a_learner_that_draws_where_agents_are_separate(
    algorithm: str, folder: Path
) -> None:
    """They see different things; each learner draws as often as the ratio says."""
    more = ("--total-steps", 1_500, "--set", "ratio=8", "--set", "batch=8", "--json")
    run = ("run", algorithm, "--inline", "--run-dir", folder / "run", *GUESSING, *SMALL, *more)
    ended = commanded(folder, run)
    assert ended.status == 0, ended.err
    found = ended.summary
    assert {*found["returns"]} == {"agent_0", "agent_1", "agent_2"}
    others = [found["learners"][f"agent_{number}.updates"] for number in (1, 2)]
    drawn = 8 * 10 if algorithm == "r2d2" else 8
    wanted = pytest.approx(8 * (found["steps"] / 3 - 100), abs=2 * (8 * 8 * 2 + drawn))
    assert [made * drawn for made in (found["updates"], *others)] == [wanted] * 3


@pytest.mark.parametrize("algorithm", ["sac", "td3", "ddpg", "d4pg", "crossq"])
def test_agents_that_choose_numbers_have_learners_of_their_own(
    algorithm: str, folder: Path
) -> None:
    """What is done before the first update is random, so the policies' shares count."""
    found = registered(algorithm, folder, agents="separate", env=NEAR[1], envs=2, after=300)
    assert found.plan.learners == ("a", "b")
    assert {*found.table} == {"a.update", "b.update", "actors.sample"}
    actor: Any = load_workload(found.plan.reference).actor
    first = {actor.seat(name).build_module(0).random for name in ("a", "b")}
    assert first == {600}, "300 of each"


def test_actors_of_ape_x_rate_rows_by_one_policy(folder: Path) -> None:
    with pytest.raises(Refused, match="leave agents out, or run rainbow"):
        registered("apex", folder, agents="separate", env=GUESSING[1], envs=6)


def settings(ways: str) -> tuple[str, ...]:
    """How each policy's learner has its rows."""
    middle, others = ways.split()
    return ("--set", f"middle={middle}", "--set", f"others={others}")


@pytest.mark.parametrize(
    "ways",
    ["draws episodes", "rounds draws",
     *(pytest.param(ways, marks=pytest.mark.long)
       for ways in ("draws draws", "episodes episodes", "episodes draws", "draws rounds",
                    "rounds episodes"))],
)  # fmt: skip
def test_each_learner_has_the_rows_of_its_agents_in_its_way(ways: str, folder: Path) -> None:
    """Each draws as often as it says, or has each episode once; blocks hold a third of all rows.

    The best returns are 2, 3 and 4; half of that is what guessing brings. The learners check rows.
    """
    given = (*settings(ways), "--set", "capacity=160", "--run-dir", folder / "run")
    ended = commanded(folder, ("run", WORKLOAD, "--inline", *given, "--json"))
    assert ended.status == 0, ended.err
    found, per_step = ended.summary, {name: envs / 6 for name, envs in POLICIES.items()}
    assert found["returns"]["agent_1"] > 2.3
    assert found["returns"]["agent_2"] > 3.2
    updates = {"middle": found["updates"], "others": found["learners"]["others.updates"]}
    for (name, made), way in zip(updates.items(), ways.split(), strict=True):
        rows = found["steps"] * per_step[name]
        if way == "draws":
            slack = 2 * (RATIO * 8 * POLICIES[name] + BATCH)
            assert made * BATCH == pytest.approx(RATIO * (rows - AFTER), abs=slack)
        elif way == "episodes":  # a game has 5 rows, one of which begins the next one
            assert made * EPISODES == pytest.approx(rows / 5, abs=2 * EPISODES + 12)
        else:
            assert made == found["steps"] // (2 * 8 * 6)
    wanted = RATIO * (1 - AFTER / (found["steps"] * per_step["middle"]))
    ratio = pytest.approx(wanted, rel=0.1) if ways.startswith("draws") else None
    assert found["replay_ratio"] == ratio, "of the first learner's rows"
    assert found["rows_lost"] == 0


def test_a_policy_draws_from_a_data_set_of_its_own_rows(folder: Path) -> None:
    """That is a run of the same policies, or a file that has what the learner knows, by its names.

    The learner checks all rows, those of the data set, too.
    """
    shown = folder / "shown"
    more = ("--inline", "--total-steps", 1_500, "--json", "--run-dir")
    saved = ("--set", "checkpoint=all")
    assert commanded(folder, ("run", WORKLOAD, *saved, *more, shown)).status == 0
    whole = read(shown)
    front = "middle/"
    own = {n.removeprefix(front): a for n, a in whole.items() if n.startswith(front)}
    np.savez(folder / "own.npz", **own)
    for number, demos in enumerate(("shown", "own.npz")):
        run = folder / f"run-{number}"
        drawn = ("--set", f"demos={demos}", "--set", "others=episodes")
        ended = commanded(folder, ("run", WORKLOAD, *drawn, *more, run))
        assert ended.status == 0, ended.err
        assert ended.summary["progress"]["metrics/shown"] == BATCH // 4
        assert ended.summary["updates"] > 0


def _require_same_actions(run: Path, arrays: Mapping[str, Any]) -> None:
    """Each policy, loaded by its name, does what it did in the games; one of them as a program."""

    def of(name: str) -> tuple[artos.Trained, Any, Any]:
        valid = arrays[f"{name}/valid"]
        seen, done = (arrays[f"{name}/{key}"][valid] for key in ("observations", "actions"))
        return artos.load(run, policy=name, trust=True), seen, done

    for name in POLICIES:
        policy, seen, done = of(name)
        np.testing.assert_array_equal(policy.act(seen), done)
        assert policy.evaluate(6).by_agent.keys() == {"agent_0", "agent_1", "agent_2"}
    policy, seen, done = of("others")
    policy.export(run / "others.pt2")
    program = torch.export.load(run / "others.pt2").module()
    np.testing.assert_array_equal(program(torch.as_tensor(seen)), done)
    with pytest.raises(Refused, match="has no policy 'other': it has middle, others"):
        artos.load(run, policy="other", trust=True)


@pytest.mark.parametrize(
    "greedy",
    [pytest.param((), marks=pytest.mark.long), ("--greedy",)],
    ids=["as trained", "greedy"],
)
def test_a_policy_draws_from_games_that_were_recorded(
    greedy: tuple[str, ...], folder: Path
) -> None:
    """Whole games that all policies play, as they are evaluated; the learner checks the rows."""
    shown, demos = folder / "shown", folder / "demos.npz"
    more = ("--inline", "--total-steps", 1_500, "--json", "--run-dir")
    assert commanded(folder, ("run", WORKLOAD, *more, shown)).status == 0
    recorded = commanded(folder, ("record", shown, "-o", demos, "--episodes", 5, "--json", *greedy))
    assert recorded.status == 0, recorded.err
    if greedy:
        _require_same_actions(shown, np.load(demos))
    said = recorded.summary
    assert (said["episodes"], said["rows"]) == (5, 5 * 5), "a game has 4 steps, and a last sight"
    played = commanded(folder, ("eval", shown, "--episodes", 18, "--json", *greedy)).summary
    rewards: dict[str, list[float]] = {}
    for name, total in zip(said["agents"], said["returns"], strict=True):
        rewards.setdefault(name, []).append(total)
    for name, totals in rewards.items():  # two games are played side by side
        games = [r for a, r in zip(played["agents"], played["returns"], strict=True) if a == name]
        assert totals == games[:5]
    arrays = np.load(demos)
    assert arrays["others/observations"].shape == (25, 2, 3)
    assert arrays["middle/observations"].shape == (25, 1, 4)
    steps = arrays["others/ages"].reshape(5, 5, 2), arrays["others/valid"].reshape(5, 5, 2).sum(1)
    np.testing.assert_array_equal(steps[0][:, :3, 0], [[0, 1, 2]] * 5)
    np.testing.assert_array_equal(steps[1], [[2, 4]] * 5)
    drawn = ("--set", f"demos={demos}", *more, folder / "run")
    ended = commanded(folder, ("run", WORKLOAD, *drawn))
    assert ended.status == 0, ended.err
    assert ended.summary["progress"]["metrics/shown"] == BATCH // 4


@pytest.mark.parametrize(
    "ways",
    [
        "draws episodes",
        *(pytest.param(f"{way} {way}", marks=pytest.mark.long) for way in ("draws", "episodes")),
    ],
)
def test_all_go_on_as_if_nothing_had_happened(
    ways: str, folder: Path, interrupt: Callable[[int], None]
) -> None:
    """With all of the run saved it has the same rows, draws and episodes under way."""
    run, whole = folder / "run", folder / "whole"
    given = (*settings(ways), "--set", "checkpoint=all", "--total-updates", 60)
    begin = ("run", WORKLOAD, "--inline", *given, "--run-dir")
    assert commanded(folder, (*begin, whole)).status == 0
    interrupt(70)
    assert commanded(folder, (*begin, run)).status == 130
    assert 0 < read_manifest(run / "checkpoint").updates < 60
    again = commanded(folder, ("run", "--inline", "--resume", run, "--trust"))
    assert again.status == 0, again.err
    arrays, wanted = (
        safetensors.numpy.load_file(each / "checkpoint" / found.file)
        for each in (run, whole)
        if (found := read_manifest(each / "checkpoint"))
    )
    assert arrays.keys() == wanted.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, wanted[name], name)


@pytest.mark.long
@pytest.mark.parametrize(
    "ways", [pytest.param("draws draws", marks=pytest.mark.exhaustive), "episodes draws"]
)
def test_whoever_is_killed_comes_back_to_its_own_rows(
    ways: str, start: Callable[..., Artos], folder: Path
) -> None:
    """A learner draws on from the rows that are there; so it does where the run is resumed."""
    run = folder / "run"
    given = (*settings(ways), "--total-steps", 10_000_000)
    process = start("run", WORKLOAD, "--run-dir", run, *given)
    victims = (Member("others"), Member("actors", 1), Member("middle"))
    kill_each(process, run, victims, POLICIES)
    assert "AssertionError" not in "".join(each.read_text() for each in (run / "logs").iterdir())
    saved = read_manifest(run / "checkpoint")
    assert "the replay buffer" in saved.restored
    again = start("run", "--resume", run, "--total-steps", saved.steps + 1_200, "--json").wait()
    assert again.status == 0, again.err
    assert again.summary["restarts"] == 0
    made = again.summary["learners"]["others.updates"] - saved.learners["others"].updates
    rows = 1_200 * POLICIES["others"] / 6
    slack = 2 * (RATIO * 8 * POLICIES["others"] + BATCH)
    assert made * BATCH == pytest.approx(RATIO * rows, abs=slack), "nothing warms up again"
    assert process.survivors() == []
