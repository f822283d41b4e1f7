"""``artos.Cluster`` does from Python what the command does, with a real head and worker."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from real_cluster import Cluster

import artos
from artos.protocol.views import ClusterView, RunView

pytestmark = [pytest.mark.processes, pytest.mark.long]


def test_a_run_is_submitted_changed_stopped_continued_and_copied(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster.start_worker("w1")
    cluster.alive("w1")
    with artos.Cluster(cluster.endpoint, cluster.keys) as there:
        with pytest.raises(artos.Refused, match="track: only of runs on this machine"):
            there.submit("ppo", env="CartPole-v1", track="wandb")
        run = there.submit(
            "ppo", env="CartPole-v1", actors=2, total_steps=5_000_000, deadline=200.0
        )
        cluster.until_under_way(run)
        assert there.scale(run, 1) == 1
        assert there.set(run, {"learner.lr": 1e-4}) == {"learner.lr": 1e-4}
        (view,) = there.list()
        assert isinstance(view, RunView)
        assert (view.name, view.user) == (run, "owner")
        assert there.drain("w1")["node"] == "w1"
        assert there.undrain("w1")["node"] == "w1"
        nodes = there.status()
        assert isinstance(nodes, ClusterView)
        assert [(node.name, node.leaves) for node in nodes.nodes] == [("w1", "")]
        there.stop(run)
        stopped = there.wait(run)
        assert stopped.outcome == "interrupted"

        told: list[artos.Status] = []
        assert there.resume(run, deadline=250.0, total_steps=stopped.steps + 20_000) == run
        ended = there.wait(run, on_progress=told.append)
        assert ended.outcome == "done"
        assert ended.steps >= stopped.steps + 20_000
        assert told
        assert told[-1].steps > stopped.steps

        mine = there.get(run, tmp_path / "mine")
        assert json.loads((mine.folder / "config.json").read_text())["deadline"] == 250.0
        assert (mine.folder, mine.steps) == (tmp_path / "mine", ended.steps)
        assert mine.load().steps == ended.steps
        with pytest.raises(artos.Refused, match="nope"):
            there.wait(there.submit("nope"))
    cluster.until(lambda: cluster.left() == [])
    assert cluster.stop() == {"w1": 0, "head": 0}
