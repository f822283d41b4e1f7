"""Policy lag of four actors whose every pull is known beforehand comes out of the engine."""

from __future__ import annotations

import math
import random
from pathlib import Path

import inline_runs
import numpy as np
import pytest
from lag_workload import ACTORS, finished

from artos.protocol.invocations import Claim
from head.run.concerns.binding import Binding
from head.run.coordination.books import Claims, Rounds
from triggers import ObjectKeyTrigger, TimeTrigger
from triggers.base import Trigger
from triggers.journal import read

EXPECTED = [
    # Pulls at every third version: round, learner's version, versions of the actors, largest lag.
    (1, 1, [0, 0, 0, 0], 1), (2, 2, [0, 0, 0, 0], 2), (3, 3, [3, 3, 3, 3], 0),
    (4, 4, [3, 3, 3, 3], 1), (5, 5, [3, 3, 3, 3], 2), (6, 6, [6, 6, 6, 6], 0),
    (7, 7, [6, 6, 6, 6], 1), (8, 8, [6, 6, 6, 6], 2), (9, 9, [9, 9, 9, 9], 0),
    (10, 10, [9, 9, 9, 9], 1), (11, 11, [9, 9, 9, 9], 2), (12, 12, [12, 12, 12, 12], 0),
]  # fmt: skip


def test_pulls_at_every_third_version(tmp_path: Path) -> None:
    with finished(ObjectKeyTrigger("model_param", every=3), 12, tmp_path) as run:
        lags = run.end_lags.max(axis=1).tolist()
        rounds = range(1, len(run.versions) + 1)
        assert list(zip(rounds, run.versions, run.held, lags, strict=True)) == EXPECTED


def test_pulls_at_every_third_version_at_consumption(tmp_path: Path) -> None:
    """The other honest measuring point: before the update, a third of the rows is two old."""
    with finished(ObjectKeyTrigger("model_param", every=3), 12, tmp_path) as run:
        assert run.consumed_max == [0, 1, 2] * 4
        assert run.consumed_mean == [0.0, 1.0, 2.0] * 4
        assert (run.mean, run.largest) == (1.0, 2)
        assert run.bound == dict.fromkeys(range(ACTORS), 12)


@pytest.mark.parametrize(("every", "largest"), [(1, 0), (2, 1), (4, 3), (6, 5)])
def test_the_pull_interval_sets_the_ceiling_and_the_traffic(
    every: int, largest: int, tmp_path: Path
) -> None:
    with finished(ObjectKeyTrigger("model_param", every=every), 12, tmp_path) as run:
        assert run.largest == largest
        assert run.pulls == ACTORS * (1 + 12 // every)


def simulated(p: float, rounds: int, seed: int) -> list[list[int]]:
    """The same draws in a plain loop: versions held at the end of each round."""
    chance, held, table = random.Random(seed), [0] * ACTORS, []
    for version in range(rounds + 1):
        for actor in range(ACTORS):
            if chance.random() < p:
                held[actor] = version
        table.append(list(held))
    return table[1:]


@pytest.mark.parametrize("p", [0.2, 0.5, 0.9])
def test_random_refresh_is_a_plain_loop_draw_for_draw(p: float, tmp_path: Path) -> None:
    for seed in range(3):
        sync = ObjectKeyTrigger("model_param", probability=p, seed=seed)
        with finished(sync, 50, tmp_path) as run:
            assert run.versions == list(range(1, 51))
            assert run.held == simulated(p, 50, seed)
            # What round k + 1 consumes is what was held at the end of round k.
            assert run.consumed_max[1:] == run.end_lags.max(axis=1).tolist()[:-1]


@pytest.mark.parametrize(
    ("p", "printed"), [(0.2, 3.68), (0.5, 0.98), (0.9, 0.111)], ids=["p=0.2", "p=0.5", "p=0.9"]
)
def test_random_refresh_has_the_mean_lag_of_the_exercise(
    p: float, printed: float, tmp_path: Path
) -> None:
    """End-of-round mean over 50 rounds from fresh: (1-p)/p less what the start lacks."""
    q, rounds, seeds = 1 - p, 50, 12
    expected = sum(q * (1 - q**k) / p for k in range(1, rounds + 1)) / rounds
    assert expected == pytest.approx(printed, abs=0.005)
    assert expected < q / p
    means = []
    for seed in range(seeds):
        sync = ObjectKeyTrigger("model_param", probability=p, seed=seed)
        with finished(sync, rounds, tmp_path) as run:
            means += run.end_lags.mean(axis=0).tolist()
    # Each actor of each seed is one independent sample of the mean.
    error = float(np.std(means, ddof=1)) / math.sqrt(len(means))
    assert abs(float(np.mean(means)) - expected) < 3 * error


@pytest.mark.parametrize("max_lag", [0, 1, 3])
@pytest.mark.parametrize(
    "sync",
    [
        ObjectKeyTrigger("model_param", every=3),
        ObjectKeyTrigger("model_param", every=1000),
        ObjectKeyTrigger("model_param", probability=0.1, seed=1),
        TimeTrigger(3600.0),
    ],
    ids=["every 3", "every 1000", "by chance", "hourly"],
)
def test_rows_that_would_be_too_old_are_not_sampled(
    sync: Trigger, max_lag: int, tmp_path: Path
) -> None:
    """Pulls are rarer than ``max_lag`` allows: without one in time the run would stand still."""
    with finished(sync, 20, tmp_path, max_lag) as run:
        assert (run.largest, run.rows_stale) == (max_lag, 0)
        assert len(run.consumed_max) == 20


def test_what_is_fresh_enough_is_not_pulled_again(tmp_path: Path) -> None:
    """The books of one actor: rounds of 8 rows, updates of 8, at most two versions old."""
    rounds, claims = Rounds({0: 0}, 8), Claims()
    max_lags = [("learner.update", 8, 2)]
    books = Binding(held := {0: -1}, max_lags, each_round=False)
    rounds.at_once(3)

    def due(trained: int) -> bool:
        rounds.grant(0)
        return books.is_due(0, trained, rounds, claims)

    assert due(0), "it has none"
    books.asked(0, 0)
    assert (books.oldest(0), held) == (0, {0: -1})
    assert [due(0), due(0)] == [False, False], "of use to versions 1 and 2"
    claims.claim("learner.update", [Claim(0, 0, 8)])
    rounds.wrote(0, 8)
    assert due(1), "would be of use to version 3"
    books.asked(0, 1)
    held[0] = 2
    assert books.oldest(0) == 2, "it was newer by then"
    held[0] = -1
    books.joined(0)
    assert (books.oldest(0), due(0)) == (-1, True), "it missed what others pulled"


WORKLOAD = """
from dataclasses import replace

from triggers import DataKeyTrigger, ObjectKeyTrigger
from triggers.algorithms.ppo import workload as ppo


def workload():
    base = ppo("CartPole-v1", 4, 4 * 8 * 12, envs=1, steps=8, hidden=(8,), epochs=1, minibatches=1)
    update = base.triggers["learner.update"]
    return replace(base, triggers={
        "learner.update": DataKeyTrigger(update.keys, n=4, size=8),
        "actors.sync": ObjectKeyTrigger("model_param", every=3),
        "actors.sample": ObjectKeyTrigger("model_param"),
    })
"""


def test_real_actors_and_a_real_learner_make_the_same_sawtooth(tmp_path: Path) -> None:
    """PPO on CartPole, registered from a user's file, with every member in this process."""
    (tmp_path / "sawtooth.py").write_text(WORKLOAD)
    registration = inline_runs.registered("sawtooth.py:workload", tmp_path)
    coordinator = inline_runs.finished(registration, tmp_path).coordinator
    learned = [line for line in read(tmp_path / "journal.jsonl") if line.get("by") == "learner"]
    assert [line["lag_max"] for line in learned] == [0, 1, 2] * 4
    assert [line["lag_mean"] for line in learned] == [0.0, 1.0, 2.0] * 4
    assert coordinator.held == dict.fromkeys(range(4), 12)
