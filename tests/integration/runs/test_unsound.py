"""What a table cannot do is said before the launch, with what to change."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from helpers import ROOT

from artos.errors import Refused
from head.run.request import reference_of
from triggers.registration import prepare

UPDATE = r"triggers\['learner.update'\]: "
OTHER = "ppo, a2c, impala, trpo, appo, rnd or es on it"
ONE, NUMBERS = "chooses one of several actions", "chooses numbers within bounds"
OWN = {
    "values_of_continuous_actions": f"QNetwork {ONE}.*takes numbers.*: run sac, .*{OTHER}",
    "values_of_several_actions": f"QNetwork {ONE}.*choices at once: run {OTHER}",
    "softmax_of_continuous_actions": f"Softmax {ONE}.*takes numbers.*{OTHER}",
    "squashed_choices": f"SquashedGaussian {NUMBERS}.*run dqn, rainbow, apex, r2d2, sac, {OTHER}",
    "squashed_without_bounds": f"SquashedGaussian {NUMBERS}.*without bounds: run {OTHER}, or",
    "deterministic_choices": f"Deterministic {NUMBERS}.*takes one of.*{OTHER}",
    "sequences_too_long": f"{UPDATE}sequences of 500 rows.*raise capacity, or lower length or burn",
    "recurrent_rows": rf"{UPDATE}the policy is recurrent.*: draw Sequences\(batch, length\)",
    "recurrent_without_state": f"{UPDATE}sequences begin with.*add 'state.memory' to the keys",
    "no_slack": f"{UPDATE}slack=1 can never be kept.*give at least 288, or leave it out",
    "too_much_warm_up": f"{UPDATE}after=100000, but.*raise capacity or lower after",
    "never_warm": f"{UPDATE}after=1000.*total_steps=900.*lower after or raise total_steps",
    "nobody_writes": f"{UPDATE}unknown data key 'altitude'",
    "scaled_categories": "policy normalize=True: unsound:Knobs shows no numbers to scale",
}
NORMALIZED = "normalize scales numbers, but FrozenLake-v1 shows none: leave normalize out"
BUILT_IN: dict[str, tuple[str, dict[str, Any], str]] = {
    "dqn, continuous": ("dqn", {"env": "Pendulum-v1"}, f"DQN {ONE}.*{OTHER}"),
    "td3, discrete": ("td3", {"env": "CartPole-v1"}, f"TD3 {NUMBERS}.*{OTHER}"),
    "no returns": (
        "d4pg",
        {"env": "Pendulum-v1", "v_min": 5.0, "v_max": 5.0},
        "v_min must be below v_max, and both finite, not 5.0 and 5.0",
    ),
    "sac, several": ("sac", {"env": "unsound:Knobs"}, f"SAC {NUMBERS} or one of.*{OTHER}"),
    "sac, no bounds": ("sac", {"env": "unsound:Unbounded"}, f"SAC.*without bounds: run {OTHER}"),
    **{
        f"{name}, a category": (name, {"env": "FrozenLake-v1", "normalize": True}, NORMALIZED)
        for name in ("ppo", "a2c", "impala", "trpo", "appo", "dqn", "sac")
    },
    "no update": ("dqn", {"total_steps": 500}, f"{UPDATE}after=1000.*total_steps=500"),
    "no goals": (
        "td3",
        {"her": 0.8},
        "her relabels goals by what was reached later, and Pendulum-v1 shows none: set her=0",
    ),
    "several steps to a goal": (
        "dqn",
        {"env": "my_goals:flip", "her": 0.8},
        f"{UPDATE}her relabels single transitions, not returns over n_step=3: set n_step=1",
    ),
    "goals and clipped rewards": (
        "dqn",
        {"env": "my_goals:flip", "her": 0.8, "n_step": 1, "clip_rewards": True},
        "her has rewards as the environment pays them: leave clip_rewards out",
    ),
    "goals by priority": (
        "sac",
        {"env": "reaching:Point", "her": 0.8, "replay": "prioritised"},
        "her relabels single transitions that are drawn uniformly: set replay=uniform, or her=0",
    ),
    "goals in windows": (
        "r2d2",
        {"env": "my_goals:flip", "her": 0.8},
        "her relabels single transitions that are drawn uniformly: set her=0",
    ),
    "too many goals": (
        "sac",
        {"env": "reaching:Point", "her": 1.5},
        f"{UPDATE}her must be within 0 and 1, not 1.5",
    ),
    "no room": ("dqn", {"replay_size": 500}, f"{UPDATE}after=1000, but the blocks hold 500"),
}


@pytest.fixture
def folder(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder, and the one that the user is in."""
    for name in ("unsound.py", "reaching.py"):
        shutil.copy(Path(__file__).with_name(name), home)
    shutil.copy(ROOT / "docs" / "examples" / "my_goals.py", home)
    monkeypatch.chdir(home)
    return home


def refusal(workload: str, folder: Path, **settings: Any) -> str:
    with pytest.raises(Refused) as caught:
        prepare(reference_of(workload, settings, folder), seed=1, apart=False)
    return "\n".join(caught.value.faults)


@pytest.mark.parametrize("name", OWN)
def test_a_table_of_a_users_own(name: str, folder: Path) -> None:
    assert re.search(OWN[name], refusal(f"unsound.py:{name}", folder))


@pytest.mark.parametrize("case", BUILT_IN)
def test_a_built_in_algorithm(case: str, folder: Path) -> None:
    workload, settings, words = BUILT_IN[case]
    assert re.search(words, refusal(workload, folder, **settings))


@pytest.mark.parametrize("name", ["recurrent_and_sound"])
def test_nothing_is_wrong_with_its_neighbour(name: str, folder: Path) -> None:
    """Or those above would be refused whatever they say."""
    prepare(reference_of(f"unsound.py:{name}", {}, folder), seed=1, apart=False)
