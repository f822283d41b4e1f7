"""Asynchronous runs come out bit for bit once more, also if they were changed or parked."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from elastic import needs_images
from inline_runs import commanded
from real_runs import TINY, Artos, Outcome, journal, updates

from artos.runs.checkpoint import read_manifest
from deploy.replay.opening import replayed

pytestmark = [pytest.mark.processes, pytest.mark.long]

Start = Callable[..., Artos]
CARTPOLE = ("--env", "CartPole-v1", "--actors", "2")
AHEAD = (*TINY, "--set", "max_lag=1")
ENDLESS = ("--total-steps", 10_000_000)
OTHERS = {
    "impala": (*CARTPOLE, "--set", "envs=1", "--set", "steps=16", "--total-steps", 960),
    "sac": (
        "--env", "Pendulum-v1", "--actors", "2", "--set", "after=64", "--set", "batch=32",
        "--set", "hidden=16", "--total-steps", 320,
    ),
}  # fmt: skip


def assert_exact(run: Path, **looks: Any) -> None:
    """Each version up to the one of the run's checkpoint."""
    found = replayed(run, **looks)
    assert (found.equal, found.first_difference, found.ended) == (True, None, "")
    assert found.versions == read_manifest(run / "checkpoint").version + 1 > 4


def stopped(artos: Artos) -> None:
    artos.signal(signal.SIGINT)
    outcome = artos.wait()
    assert outcome.status == 130, outcome.err


def told(home: Path, artos: Artos, *words: object) -> None:
    """Change a run, and wait until it has made some versions more."""
    run = home / "run"
    artos.until(lambda: updates(run) > 5)
    outcome = commanded(home, (words[0], run, *words[1:]))
    assert outcome.status == 0, outcome.err
    before = updates(run)
    artos.until(lambda: updates(run) > before + 10)


@pytest.mark.parametrize("name", OTHERS)
def test_actors_that_wait_for_nobody(name: str, artos: Callable[..., Outcome], home: Path) -> None:
    outcome = artos("run", name, *OTHERS[name], "--run-dir", home / "run", "--json")
    assert outcome.status == 0, outcome.err
    assert outcome.summary["lag_max"] > 0, "else nothing depended on who was ready first"
    assert_exact(home / "run")


def test_an_actor_that_leaves_and_comes_back(start: Start, home: Path) -> None:
    run = home / "run"
    words = ("run", "ppo", "--env", "CartPole-v1", "--actors", "1..2", *AHEAD, *ENDLESS)
    artos = start(*words, "--run-dir", run)
    for number in (2, 1, 2):
        told(home, artos, "scale", number)
    stopped(artos)
    numbers = [line["actors"] for line in journal(run) if {"actors", "version"} <= line.keys()]
    assert numbers[-3:] == [2, 1, 2]
    assert_exact(run)


def test_a_step_size_that_is_set(start: Start, home: Path) -> None:
    """Each version by the step size that it was made with; with another one it is another."""
    run = home / "run"
    words = ("run", "ppo", *CARTPOLE, *AHEAD, "--set", "anneal=false", *ENDLESS)
    artos = start(*words, "--run-dir", run)
    told(home, artos, "set", "learner.lr=1e-4")
    stopped(artos)
    first: dict[float, int] = {}

    def learned(_: str, version: int, steps: int, metrics: Any) -> None:
        first.setdefault(metrics["lr"], version)

    assert_exact(run, learned=learned)
    assert [*first][1:] == [1e-4]
    file = run / "journal.jsonl"
    before, name, after = file.read_text().partition('"set":{"learner.lr":')
    file.write_text(f"{before}{name}1e-3{after[after.index('}') :]}")
    found = replayed(run).first_difference
    assert str(found) == f"learner made another version at version {first[1e-4]}"


@needs_images
def test_actors_that_wait_as_images(artos: Callable[..., Outcome], home: Path) -> None:
    run = home / "run"
    long_updates = ("--set", "envs=1", "--set", "steps=16", "--set", "epochs=16")
    parked = ("--set", "park=checkpoint", "--set", "prewarm=off", "--set", "max_lag=1")
    words = ("run", "ppo", *CARTPOLE, *long_updates, *parked, "--total-steps", 320)
    outcome = artos(*words, "--run-dir", run, "--json")
    assert outcome.status == 0, outcome.err
    assert outcome.summary["starts"]["restore"]["count"] > 4
    assert_exact(run)
