"""Data sets that a run's policy plays: the episodes of ``eval``, as the run's actors store them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from helpers import ROOT

import artos
from artos.errors import DeadlineExceeded, Refused
from deploy.cli.__main__ import main


@pytest.fixture(scope="module")
def expert(train: Callable[..., str]) -> str:
    return train("ppo", "ppo", "--set", "envs=3", "--set", "steps=64", "--set", "minibatches=1")


def test_the_episodes_are_those_of_an_evaluation(expert: str, tmp_path: Path) -> None:
    """More of them than environments, and not as many for each."""
    trained, path = artos.load(expert), tmp_path / "demos.npz"
    recorded = trained.record(path, 5, greedy=True, seed=7)
    played = trained.evaluate(5, greedy=True, seed=7)
    assert recorded.returns == pytest.approx(played.returns)
    rows = np.load(path)
    assert set(recorded.keys) == set(rows.files) >= {"observations", "log_probs", "values"}
    assert recorded.rows == sum(played.lengths) + 5
    ends = np.flatnonzero(~rows["valid"])
    assert (np.diff([-1, *ends]) - 1).tolist() == list(played.lengths)
    starts = [0, *(ends[:-1] + 1)]
    assert np.flatnonzero(rows["ages"] == 0).tolist() == starts
    assert (rows["terminations"] | rows["truncations"])[ends - 1].all()


def test_a_recurrent_policy_is_recorded_with_its_state(
    train: Callable[..., str], tmp_path: Path
) -> None:
    run = train("recurrent", "ppo", "--set", "recurrent=true", "--set", "minibatches=1")
    recorded = artos.load(run).record(tmp_path / "demos.npz", 2)
    states = [name for name in recorded.keys if name.startswith("state")]
    assert states
    rows = np.load(tmp_path / "demos.npz")
    assert all((rows[name][rows["ages"] == 0] == 0).all() for name in states)


def test_another_run_learns_from_it(
    train: Callable[..., str], expert: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rows of PPO's actors, which store no last observations themselves, for a DQN."""
    assert main(["record", expert, "-o", "demos.npz", "--episodes", "3", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["episodes"], said["path"]) == (3, "demos.npz")
    (home / "imitating.py").write_text(
        "from dataclasses import replace\n"
        "from my_dqn import ROW, workload as dqn\n"
        "from artos import Rows, Uniform\n"
        "from triggers import ReplayTrigger\n"
        "update = ReplayTrigger(ROW, Uniform(32), source='demos')\n"
        "data = {'demos': Rows('demos.npz')}\n"
        "table = {'learner.update': update}\n"
        "workload = replace(dqn(), actors=0, total_updates=8, data=data, triggers=table)\n"
    )
    trained = artos.load(train("imitating", "imitating.py:workload"))
    assert trained.steps == 0
    assert trained.progress == 1.0
    assert main(["record", expert, "-o", "demos.npz"]) == 2
    assert "is there already" in capsys.readouterr().err


def test_what_makes_no_sense_is_refused(expert: str, tmp_path: Path) -> None:
    trained = artos.load(expert)
    with pytest.raises(Refused, match=r"(?s)episodes must be.*seed must not"):
        trained.record(tmp_path / "demos.npz", 0, seed=-1)
    with pytest.raises(Refused, match=r"written to FILE\.npz"):
        trained.record(tmp_path / "demos.pkl")


def test_actors_that_ask_a_server_are_recorded_if_they_can_do_without(
    train: Callable[..., str], home: Path, tmp_path: Path
) -> None:
    """Where a server has the network they act by themselves; nobody else is a judge."""
    shutil.copy(ROOT / "docs" / "examples" / "my_judge.py", home)
    judged = artos.load(train("judged", "my_judge.py:workload"))
    with pytest.raises(Refused, match="asks the server 'judge', which answers only while"):
        judged.record(tmp_path / "demos.npz", 1)
    small = ("--set", "envs=4", "--set", "steps=16", "--set", "minibatches=1")
    central = artos.load(train("central", "ppo", "--set", "inference=central", *small))
    recorded = central.record(tmp_path / "demos.npz", 3)
    assert recorded.returns == central.evaluate(3, greedy=False).returns


@pytest.mark.parametrize(
    ("algorithm", "settings"),
    [
        ("es", ("--env", "CartPole-v1", "--set", "envs=4", "--set", "steps=100")),
        ("grpo", ("--env", "ReverseText-v0(digits=70)", "--set", "groups=1", "--set", "group=2")),
    ],
)
def test_actors_that_begin_each_round_anew_are_recorded_as_others_are(
    algorithm: str, settings: tuple[str, ...], train: Callable[..., str], tmp_path: Path
) -> None:
    run = artos.load(train(algorithm, algorithm, *settings))
    recorded = run.record(tmp_path / "demos.npz", 3, greedy=True, seed=7, deadline=60.0)
    assert recorded.returns == pytest.approx(run.evaluate(3, greedy=True, seed=7).returns)


def test_episodes_that_do_not_end_are_given_up(toy: Callable[[str], str], tmp_path: Path) -> None:
    run = artos.load(toy("endless"))
    with pytest.raises(DeadlineExceeded, match="TimeLimit"):
        run.record(tmp_path / "demos.npz", 1, deadline=0.05)
    assert not [*tmp_path.iterdir()]
