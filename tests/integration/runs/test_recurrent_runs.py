"""Recurrent policies in runs: sequences fit what was acted, and memory is learned."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers import ROOT
from learned import learned
from real_runs import Artos, Outcome

from head.records.progress_log import read_history

pytestmark = pytest.mark.processes

RECURRENT = ("--set", "recurrent=true", "--set", "memory=16", "--set", "hidden=16")


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "mode"),
    [
        *((name, ("--inline",)) for name in ("ppo", "a2c", "impala", "trpo", "appo")),
        ("ppo", ()),  # whole rounds
        ("impala", ()),  # each as it comes
    ],
)
def test_sequences_are_evaluated_as_they_were_acted(
    name: str, mode: tuple[str, ...], artos: Callable[..., Outcome], home: Path
) -> None:
    once = ("--set", "epochs=1", "--set", "minibatches=1") if name == "ppo" else ()
    size = ("--total-steps", "2048", "--set", "steps=32", "--actors", "2", "--seed", "1")
    outcome = artos("run", name, *RECURRENT, *once, *size, *mode, "--json", "--run-dir", "r")
    assert outcome.status == 0, outcome.err
    assert outcome.summary["steps"] >= 2048
    assert outcome.summary["restarts"] == 0
    if name == "ppo":
        history = read_history(home / "r" / "progress.csv")
        assert max(abs(float(row["metrics/approx_kl"])) for row in history) < 1e-5


def test_minibatches_must_divide_sequences(artos: Callable[..., Outcome]) -> None:
    outcome = artos("run", "ppo", *RECURRENT, "--set", "minibatches=3", "--json")
    assert outcome.status == 2
    assert "2 actors x 4 envs = 8 do not divide into 3 minibatches" in outcome.err


def test_single_transitions_are_nothing_for_a_recurrent_policy(
    artos: Callable[..., Outcome], home: Path
) -> None:
    (home / "wrong.py").write_text(
        "from dataclasses import replace\n"
        "from artos.actors.rollout import RolloutActor\n"
        "from artos.policies.recurrent import RecurrentActorCritic\n"
        "from triggers.algorithms.dqn import workload as dqn\n"
        "def workload():\n"
        "    actor = RolloutActor('CartPole-v1', RecurrentActorCritic, envs=4)\n"
        "    return replace(dqn(), actor=actor)\n"
    )
    outcome = artos("run", "wrong.py:workload", "--json")
    assert outcome.status == 2
    assert "draw Sequences(batch, length)" in outcome.err


@pytest.mark.long
@pytest.mark.parametrize(
    ("workload", "seed"), [("my_r2d2.py:workload", "1"), ("r2d2", "1"), ("r2d2", "2")]
)
def test_memory_is_learned_from_replay(
    workload: str, seed: str, start: Callable[..., Artos], home: Path
) -> None:
    """As ``test_memory_is_learned``: by the page on recurrent Q-learning, and as it is built in."""
    shutil.copy(Path(__file__).with_name("recalling.py"), home)
    shutil.copy(ROOT / "docs" / "examples" / "my_r2d2.py", home)
    run = ("run", workload, "--set", "env=recalling:make", "--json", "--seed", seed)
    running = start(*run, "--total-steps", "16000", "--run-dir", "r")
    assert learned(running, home / "r", 100, 0.9)


@pytest.mark.long
@pytest.mark.parametrize("seed", ["1", "2"])
def test_memory_is_learned(seed: str, start: Callable[..., Artos], home: Path) -> None:
    """Without a memory nothing beats 0.5."""
    shutil.copy(Path(__file__).with_name("recalling.py"), home)
    run = ("run", "ppo", "--env", "recalling:make", "--json", "--seed", seed)
    size = ("--total-steps", "40000", "--set", "steps=64", "--set", "lr=3e-3")
    recurrent = ("--set", "recurrent=true", "--set", "memory=32", "--run-dir", "r")
    assert learned(start(*run, *size, *recurrent), home / "r", 100, 0.9)
