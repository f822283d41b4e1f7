"""Weights on two nodes: pulled when the table says so, whole, in order, never damaged."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from books import Book, book_of
from clusters import Cluster
from tampering import Tamperer
from witness import CHANCE, EVERY, SEED, told_by

from artos.protocol.data import Weights
from artos.transport.bfloat16 import narrow, widen

pytestmark = [pytest.mark.processes, pytest.mark.long]

WITNESS = "witness.py:workload"
ACTORS, STEPS, ROUNDS = 2, 8, 12
NODES = {0: "w1", 1: "w2"}


def begin(cluster: Cluster, **settings: Any) -> None:
    cluster.begin(WITNESS, **settings)
    for node in NODES.values():
        cluster.open(node)
    cluster.place(NODES)


def finished(cluster: Cluster) -> tuple[Book, dict[str, Any]]:
    """The book of a run in which all went well, and its summary."""
    summary = cluster.finish()
    assert set(cluster.statuses().values()) == {0}, cluster.said()
    assert cluster.survivors() == []
    return book_of(cluster.run_folder), summary


def held(book: Book) -> list[list[int]]:
    """The version with which each actor sampled each round; all rows of a round have the same."""
    by_actor = []
    for actor in range(ACTORS):
        _, step, version, _, _ = book[book[:, 0] == actor].T
        np.testing.assert_array_equal(step, np.arange(len(step)))
        rounds = version.reshape(-1, STEPS).astype(int)
        assert (rounds == rounds[:, :1]).all()
        by_actor.append(rounds[:, 0].tolist())
    return [list(versions) for versions in zip(*by_actor, strict=True)]


def assert_told(book: Book, *, rounded: bool = False) -> None:
    """What rows say of the weights is what the learner published under their version."""
    told = np.array([told_by(int(version)) for version in book[:, 2]], np.float32)
    if rounded:
        exact = told.copy()
        widen(narrow(exact), told)
        assert (told != exact).any(), "else this shows nothing"
    np.testing.assert_array_equal(book[:, 3], told)


def lags(cluster: Cluster) -> list[list[list[float]]]:
    """Of each update, of each claim: actor, mean and largest lag, by the journal."""
    return [line["lags"] for line in cluster.journal() if line.get("by") == "learner"]


def test_every_third_version_is_pulled(cluster: Cluster) -> None:
    begin(cluster, sync="every")
    book, summary = finished(cluster)
    assert held(book) == [[r // EVERY * EVERY] * ACTORS for r in range(ROUNDS)]
    assert_told(book)
    sawtooth = [r % EVERY for r in range(ROUNDS)]
    assert lags(cluster) == [[[a, lag, lag] for a in range(ACTORS)] for lag in sawtooth]
    spread = {"rows": 96, "histogram": {"0": 32, "1": 32, "2-3": 32}}
    assert summary["lag_by_actor"] == {
        str(actor): {"mean": 1.0, "max": 2, **spread} for actor in range(ACTORS)
    }
    assert (summary["lag_mean"], summary["lag_max"]) == (1.0, 2)


def simulated(rounds: int) -> list[list[int]]:
    """The same draws in a plain loop: versions held in each round."""
    chance, now, table = random.Random(SEED), [0] * ACTORS, []
    for version in range(rounds):
        for actor in range(ACTORS):
            if chance.random() < CHANCE:
                now[actor] = version
        table.append(list(now))
    return table


def test_each_actor_pulls_by_chance_and_weights_travel_rounded(cluster: Cluster) -> None:
    begin(cluster, sync="chance", wire_dtype="bfloat16")
    book, summary = finished(cluster)
    expected = simulated(ROUNDS)
    assert held(book) == expected
    assert_told(book, rounded=True)
    behind = np.arange(ROUNDS)[:, None] - expected
    assert len({*behind.max(0)} | {*behind.mean(0)}) > 2, "else actors could be confused"
    for actor in range(ACTORS):
        lag = summary["lag_by_actor"][str(actor)]
        assert lag["mean"] == pytest.approx(behind[:, actor].mean(), abs=1e-4)
        assert lag["max"] == behind[:, actor].max()


def test_the_clock_has_them_pulled(cluster: Cluster) -> None:
    with cluster.slowly():
        begin(cluster, sync="time", total_steps=32_000)
        cluster.until(lambda: len(pulled(cluster)) > 3 and "1" in lags_shown(cluster))
        cluster.stop()
    summary = cluster.finish()
    assert summary["outcome"] == "interrupted"
    assert cluster.survivors() == []
    book = book_of(cluster.run_folder)
    assert_told(book)
    rounds = np.array(held(book))
    assert (np.diff(rounds, axis=0) >= 0).all(), "versions never go back"
    assert {*rounds.flat} - {0} <= pulled(cluster)
    fired = {line["firing"]: line for line in cluster.journal() if "firing" in line}
    for line in cluster.journal():
        if "done" in line and fired[line["done"]]["trigger"] == "actors.sync":
            assert line["version"] >= fired[line["done"]]["version"], "as new as when it was asked"


def lags_shown(cluster: Cluster) -> dict[str, Any]:
    """What the head is told of the actors' lags."""
    facts = cluster.news[-1].facts if cluster.news else None
    return msgspec.to_builtins(facts).get("lag_by_actor", {}) if facts else {}


def pulled(cluster: Cluster) -> set[int]:
    """The versions that the clock had pulled."""
    journal = cluster.journal()
    clocks = {line["firing"] for line in journal if line.get("trigger") == "actors.sync"}
    return {line["version"] for line in journal if line.get("done") in clocks}


def test_damaged_weights_are_refused_and_asked_for_again(cluster: Cluster, tmp_path: Path) -> None:
    spoilt: set[tuple[str, int]] = set()

    def spoils(who: str, message: Weights) -> bool:
        """Once the first piece of every third version, and the last one of every fifth."""
        version, last = message.version, message.start > 0
        if version >= ROUNDS or version % (5 if last else 3) or (who, version) in spoilt:
            return False
        spoilt.add((who, version))
        return True

    cluster.begin(WITNESS)
    up = cluster.ups[-1]
    with Tamperer(up.experience, cluster.folder / "keys", spoils) as tamperer:
        cluster.ups[-1] = msgspec.structs.replace(up, experience=tamperer.endpoint)
        for node in NODES.values():
            cluster.open(node)
        cluster.place(NODES)
        book, summary = finished(cluster)
    assert held(book) == [[r] * ACTORS for r in range(ROUNDS)]
    assert_told(book)
    assert (summary["lag_max"], summary["rows_lost"], summary["restarts"]) == (0, 0, 0)
    assert {version for _, version in spoilt} == {0, 3, 5, 6, 9, 10}
    assert len(spoilt) == 6 * len(NODES)
    for who, version in spoilt:
        assert tamperer.pulls.count((who, version - 1)) > 1, "asked for once, and once again"
    for node in NODES.values():
        agent = cluster.folder / node / "logs" / "agent.log"
        assert "weights of version 3 arrived damaged" in agent.read_text()
