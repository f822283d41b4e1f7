"""Actors that leave a node go on elsewhere in mid-episode; real processes."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from books import book_of
from clusters import Cluster
from elastic import needs_criu
from journey import follower
from sluice import Sluice

from artos.runs.checkpoint import read_manifest
from artos.system.signals import CLOSE
from workers.checkpoint.criu import common_memory

pytestmark = [pytest.mark.processes, pytest.mark.long]

JOURNEY = "journey.py:workload"
ROWS = 2400


def begin(cluster: Cluster, *, criu: bool = True, **settings: str) -> None:
    """Actor 0 on w1, actor 1 on w2, which may have no CRIU."""
    cluster.begin(JOURNEY, total_steps=ROWS, **settings)
    cluster.open("w1")
    cluster.open("w2", criu=criu)
    cluster.place({0: "w1", 1: "w2"})


def paths(run: Path, actor: int) -> list[list[int]]:
    """What an actor's environments showed, each of them one after the other."""
    book = book_of(run)
    rows = book[book[:, 0] == actor]
    assert rows[:, 1].tolist() == list(range(len(rows))), "each row once, in order"
    found: dict[int, list[int]] = {}
    for _, _, identity, place in rows.tolist():
        found.setdefault(identity, []).append(place)
    for identity, path in found.items():
        assert path[0] == identity
        assert all(follower(a) == b for a, b in pairwise(path)), "the episode was broken"
    return list(found.values())


def assert_over(cluster: Cluster, summary: dict[str, Any], rows: int = ROWS) -> None:
    assert (summary["outcome"], summary["steps"]) == ("done", rows)
    assert summary["rows_lost"] == 0
    assert set(cluster.statuses().values()) == {0}, cluster.said()
    assert not [*cluster.run_folder.glob("images*")]
    assert cluster.survivors() == []


def moved(cluster: Cluster, by: str = "moved") -> list[tuple[str, str, str]]:
    """Who moved from where to where, as the journal says: by an image, or by its "state"."""
    lines = [line for line in cluster.journal() if line.get("start") == by]
    return [(line["ready"], line["from"], line["to"]) for line in lines]


def is_left(cluster: Cluster, node: str) -> list[str]:
    """Images, bundles and blocks of actors that lie on a node."""
    memory, images = cluster.memory_of(node), cluster.folder / node / "images"
    return [
        path.name
        for path in (*memory.iterdir(), *images.glob("*/*"))
        if path.name.startswith(("actor", "held")) or path.suffix == ".bundle"
    ]


@needs_criu
@pytest.mark.parametrize("settings", [{}, {"park": "freeze", "start": "cold"}])
def test_an_actor_goes_on_in_mid_episode_on_another_node(
    cluster: Cluster, settings: dict[str, str]
) -> None:
    with cluster.slowly():
        begin(cluster, **settings)
        cluster.until_update(3)
        cluster.place({0: "w1", 1: "w1"}, why="w2 is drained")
        cluster.until(lambda: moved(cluster))
        if "start" not in settings and common_memory.SUPPORTED:
            ahead = cluster.run_folder / "images-moving" / "memories"
            cluster.until(lambda: [*ahead.glob("*")])
        cluster.until(lambda: is_left(cluster, "w2") == [])
        cluster.executors["w2"].send_signal(CLOSE)
    summary = cluster.finish()
    assert moved(cluster) == [("actor 1", "w2", "w1")]
    assert summary["starts"]["moved"]["count"] == 1
    assert summary["restarts"] == 0
    assert_over(cluster, summary)
    assert [len(path) for path in paths(cluster.run_folder, 1)] == [ROWS // 2]


@needs_criu
def test_a_run_that_saves_all_has_what_an_actor_holds_that_came_by_its_image(
    cluster: Cluster,
) -> None:
    """Its process began in the memory of the run on the other node, which is gone."""
    with cluster.slowly():
        begin(cluster, checkpoint="all")
        cluster.until_update(3)
        cluster.place({0: "w1", 1: "w1"}, why="w2 is drained")
        cluster.until(lambda: moved(cluster))
        cluster.executors["w2"].send_signal(CLOSE)
        cluster.stop()
    assert cluster.finish()["outcome"] == "interrupted", cluster.said()
    assert read_manifest(cluster.run_folder / "checkpoint").not_restored == ()
    assert cluster.survivors() == []


@pytest.mark.parametrize("settings", [{}, {"park": "freeze", "start": "cold"}])
def test_without_criu_it_goes_on_by_what_it_held(
    cluster: Cluster, settings: dict[str, str]
) -> None:
    """In the middle of its episode all the same, and every row is there once."""
    with cluster.slowly():
        begin(cluster, criu=False, **settings)
        cluster.until_update(3)
        cluster.place({0: "w1", 1: "w1"}, why="w2 is drained")
        cluster.until(lambda: moved(cluster, "state"))
        cluster.until(lambda: is_left(cluster, "w2") == [])
        cluster.place({0: "w1", 1: "w2"}, why="w2 is back")
        cluster.until(lambda: len(moved(cluster, "state")) == 2)
    summary = cluster.finish()
    assert moved(cluster, "state") == [("actor 1", "w2", "w1"), ("actor 1", "w1", "w2")]
    assert summary["starts"]["state"]["count"] == 2
    assert summary["restarts"] == 0
    assert_over(cluster, summary)
    assert [len(path) for path in paths(cluster.run_folder, 1)] == [ROWS // 2]


def test_who_is_called_back_after_it_has_handed_over_goes_on(cluster: Cluster) -> None:
    with cluster.slowly():
        begin(cluster, criu=False)
        cluster.until_update(3)
        cluster.place({0: "w1", 1: "w1"}, why="w2 is drained")
        memory = cluster.memory_of("w2")
        cluster.until(lambda: [*memory.glob("held-*")] or moved(cluster, "state"))
        cluster.place({0: "w1", 1: "w2"}, why="w2 stays")
        cluster.until_update(cluster.updates() + 5)
    summary = cluster.finish()
    assert summary["restarts"] == 0
    assert_over(cluster, summary)
    assert [len(path) for path in paths(cluster.run_folder, 1)] == [ROWS // 2]


@needs_criu
def test_who_is_called_back_while_it_is_packed_goes_on(cluster: Cluster) -> None:
    with cluster.slowly():
        begin(cluster)
        cluster.until_update(3)
        cluster.place({0: "w1", 1: "w1"}, why="w2 is drained")
        cluster.until(lambda: [*(cluster.folder / "w2" / "images").glob("*/actor-1*")])
        cluster.place({0: "w1", 1: "w2"}, why="w2 stays")
        cluster.until_update(cluster.updates() + 5)
    summary = cluster.finish()
    assert summary["restarts"] == 0
    assert_over(cluster, summary)
    assert [len(path) for path in paths(cluster.run_folder, 1)] == [ROWS // 2]


@needs_criu
def test_both_actors_go_on_at_an_executor_that_opens_when_their_node_is_gone(
    cluster: Cluster,
) -> None:
    with cluster.slowly():
        cluster.begin(JOURNEY, total_steps=ROWS)
        cluster.open("w1")
        cluster.place({0: "w1", 1: "w1"})
        cluster.until_update(3)
        cluster.place({0: "w2", 1: "w2"}, why="w1 is drained")
        cluster.until(lambda: "the executor on w2 (actors 0, 1)" in cluster.news[-1].waits_for)
        cluster.kill_node("w1")
        cluster.open("w2")
        cluster.until(lambda: len(moved(cluster)) == 2)
        cluster.open("w3")
        cluster.place({0: "w2", 1: "w3"}, "w1", why="another worker is there")
        cluster.until(lambda: len(moved(cluster)) == 3)
    summary = cluster.finish()
    assert sorted(moved(cluster)) == [
        ("actor 0", "w1", "w2"), ("actor 1", "w1", "w2"), ("actor 1", "w2", "w3"),
    ]  # fmt: skip
    assert summary["restarts"] == 0
    assert_over(cluster, summary)
    for actor in (0, 1):
        assert [len(path) for path in paths(cluster.run_folder, actor)] == [ROWS // 2]


@needs_criu
def test_an_image_that_is_refused_is_named_and_its_actor_begins_anew(cluster: Cluster) -> None:
    with cluster.slowly():
        begin(cluster)
        cluster.until_update(3)
        cluster.place({0: "w1", 1: "w3"}, why="w2 is drained")
        cluster.until(lambda: "the executor on w3" in cluster.news[-1].waits_for)
        (bundle,) = cluster.run_folder.glob("images-moving/[0-9]*")
        with bundle.open("r+b") as file:
            file.seek(bundle.stat().st_size // 2)
            file.write(bytes(64))
        cluster.open("w3")
        cluster.until(lambda: "begins anew" in cluster.log("run").read_text())
        cluster.until(lambda: is_left(cluster, "w2") == [])
    summary = cluster.finish()
    (line,) = [line for line in cluster.log("run").read_text().splitlines() if "anew" in line]
    assert line.startswith("actor 1, which left w2, begins anew: image")
    assert moved(cluster) == []
    assert summary["restarts"] == 0
    assert_over(cluster, summary)
    assert len(paths(cluster.run_folder, 1)) == 2


@needs_criu
def test_a_node_that_dies_while_an_image_is_fetched_is_a_dead_node(cluster: Cluster) -> None:
    with cluster.slowly():
        cluster.begin(JOURNEY, total_steps=ROWS)
        with Sluice(cluster.ups[-1].steering, most=1 << 20) as sluice:
            cluster.open("w1")
            cluster.open("w2", steering=sluice.endpoint)
            cluster.place({0: "w1", 1: "w2"})
            cluster.until_update(3)
            sluice.narrow.set()
            cluster.place({0: "w1", 1: "w1"}, why="w2 is drained")
            cluster.until(sluice.dry.is_set)
            cluster.kill_node("w2")
        cluster.place({0: "w1", 1: "w1"}, "w2", why="it was silent for 15 s")
    summary = cluster.finish()
    assert moved(cluster) == []
    assert_over(cluster, summary)
    assert len(paths(cluster.run_folder, 1)) == 2
