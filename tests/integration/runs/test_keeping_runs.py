"""Runs on environments that keep, reuse and change arrays: returns are those that they counted."""

from __future__ import annotations

import csv
import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from helpers import ROOT
from real_runs import Outcome

import artos as api

pytestmark = pytest.mark.processes
Run = Callable[..., Outcome]

FEW = ("--total-steps", 600, "--actors", 2, "--seed", 3)
REPLAY = ("--set", "after=100", "--set", "batch=32", "--set", "ratio=8")
RUNS = {
    "ppo": ("bytes_multidiscrete", ("--set", "steps=16", "--set", "minibatches=2")),
    "a2c": ("tuple_multibinary", ()),
    "impala": ("dict_box", ()),
    "appo": ("tuple_multibinary", ("--set", "steps=16")),
    "trpo": ("dict_box", ("--set", "steps=16", "--set", "minibatches=2")),
    "dqn": ("discrete_shifted", REPLAY),
    "sac": ("doubles_box", REPLAY),
    "td3": ("multidiscrete_box", REPLAY),
    "ddpg": ("doubles_box", REPLAY),
    "d4pg": ("dict_box", REPLAY),
}


BY_ENV = {env: algorithm for algorithm, (env, _) in reversed(RUNS.items())}
"""An algorithm for each environment."""


@pytest.fixture
def home(home: Path) -> Path:
    shutil.copy(ROOT / "tests/artos/envs/keeping_envs.py", home)
    return home


@pytest.mark.parametrize("algorithm", RUNS)
def test_in_one_process(algorithm: str, artos: Run, home: Path) -> None:
    _trains(algorithm, artos, home, "--inline")


@pytest.mark.long
@pytest.mark.parametrize("algorithm", BY_ENV.values())
def test_in_processes(algorithm: str, artos: Run, home: Path) -> None:
    _trains(algorithm, artos, home)


def _trains(algorithm: str, artos: Run, home: Path, *more: str) -> None:
    env, settings = RUNS[algorithm]
    kind = ("--env", f"keeping_envs:{env}", *FEW, *settings)
    done = artos("run", algorithm, *kind, "--run-dir", "r", "--json", *more)
    assert done.status == 0, done.err
    _counted_alike(home, env, [row["return"] for row in _episodes(home)])
    judged = artos("eval", "r", "--episodes", 5, "--json")
    assert judged.status == 0, judged.err
    returns = json.loads(judged.out)["returns"]
    assert len(returns) == 5
    _counted_alike(home, env, returns)


def _episodes(home: Path) -> list[dict[str, str]]:
    with (home / "r" / "episodes.csv").open() as file:
        return list(csv.DictReader(file))


def _counted_alike(home: Path, env: str, returns: list[float | str]) -> None:
    """The environments counted at least these; some may have ended after the run looked."""
    log = home / f"{env}.returns"
    counted = Counter(map(float, log.read_text().split()))
    told = Counter(map(float, returns))
    assert told
    assert max(told) > 1, "nothing was paid for"
    assert told <= counted
    log.unlink()


def test_what_was_trained_takes_and_gives_arrays_of_its_own(
    artos: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = "bytes_multidiscrete"
    kind = ("--env", f"keeping_envs:{env}", "--inline", "--total-steps", 256, "--set", "steps=16")
    assert artos("run", "ppo", *kind, "--set", "minibatches=2", "--run-dir", "r").status == 0
    monkeypatch.chdir(home)
    trained = api.load(home / "r")
    seen = np.array([1, 2, 3], np.uint8)
    first = trained.act(seen)
    kept = first.copy()
    for number in range(20):
        seen[:] = number
        trained.act(seen)
    assert np.array_equal(first, kept)
