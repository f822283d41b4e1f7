"""A user's quota on a real cluster: who waits for it, and what live runs hold of it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from real_cluster import Cluster

from artos.pool.view import read_pool

pytestmark = pytest.mark.processes

LONG = ("counting.py:workload", "--total-steps", 38_400)


def name(seed: int) -> str:
    return f"counting-workload-seed{seed}-1"


def held() -> Counter[str]:
    """How many slots each run holds at this moment."""
    return Counter(each.workload.rsplit(".", 2)[0] for each in read_pool().holders)


def head_with(cluster: Cluster, quotas: str) -> None:
    cluster.status()  # who has heard a head waits for it
    cluster.head.kill()
    cluster.config.write_text(f"deadline = 4.0\n{quotas}")
    cluster.start_head()


@pytest.mark.long
def test_a_user_holds_what_the_quota_allows_and_the_next_run_waits(
    cluster: Cluster, code: Path
) -> None:
    head_with(cluster, "[quotas.users]\nowner = { slots = 3 }\n")
    cluster.start_worker("w1", "--slots", 2)
    cluster.alive("w1")
    submits = []
    for seed in (1, 2, 3):
        submits.append(cluster.submit(*LONG, "--seed", seed, cwd=code))
        if seed < 3:
            cluster.until_under_way(name(seed))
    waiting = cluster.until(lambda: cluster.status()[1].get(name(3)))
    assert waiting["user"] == "owner"
    words = "a quota: user owner holds 3 of 3 slots"
    cluster.until(lambda: cluster.status()[1][name(3)]["waits_for"] == words)
    for _ in range(100):
        assert held()[name(2)] <= 1, "its two actors take turns"
    cluster.head.kill()
    cluster.start_head()
    cluster.alive("w1")
    cluster.until(lambda: cluster.status()[1][name(3)]["waits_for"] == words)
    cluster.ask("stop", name(1))
    assert submits[0].wait() == 130, cluster.story()
    cluster.until(lambda: cluster.status()[1][name(3)]["state"] == "running")
    cluster.ask("stop", name(3))
    cluster.until(lambda: held()[name(2)] == 2)
    cluster.ask("stop", name(2))
    assert [submit.wait() for submit in submits] == [130] * 3, cluster.story()
    cluster.until(lambda: cluster.left() == [])
    assert cluster.stop() == {"w1": 0, "head": 0}


@pytest.mark.long
def test_a_user_whose_seconds_are_used_up_has_runs_saved_and_ended(
    cluster: Cluster, code: Path
) -> None:
    head_with(cluster, "[quotas.users]\nowner = { cpu_seconds = 0.5 }\n")
    cluster.start_worker("w1")
    submit = cluster.submit(*LONG, cwd=code)
    assert submit.wait() == 130, cluster.story()
    run = cluster.status()[1][name(1)]
    assert run["outcome"] == "interrupted"
    assert "of 0.5 CPU-seconds: with a larger quota, --resume continues it" in run["why"]
    assert (cluster.runs / name(1) / "checkpoint").is_dir()
    cluster.submit("--resume", name(1))
    words = "a quota: user owner has held"
    cluster.until(lambda: cluster.status()[1][name(1)]["waits_for"].startswith(words))
    head_with(cluster, "")
    cluster.until(lambda: cluster.status()[1][name(1)]["state"] == "running")
    cluster.ask("stop", name(1))
    cluster.until(lambda: cluster.status()[1][name(1)]["outcome"] == "interrupted")
