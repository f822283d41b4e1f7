"""Goals, rewards, texts, a population, past versions: they outlive a lost node, and the run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from clusters import Cluster
from helpers import ROOT

pytestmark = [pytest.mark.processes, pytest.mark.long]

ENDLESS = {"total_steps": 10**9, "checkpoint": "all"}
REPLAY = {"after": 200, "batch": 16, "hidden": "16,16", "actors": 2, "envs": 2, **ENDLESS}
PAYING = "paying:paying(components={'far': 1.0, 'cost': -0.5, 'late': 2.0})"
TEXTS = {"groups": 2, "group": 4, "width": 16, "threads": 1, "max_lag": 1, "actors": 2}
CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "goals, relabelled by the learner": (
        "dqn", "learner", {"env": "my_goals:flip", "her": 0.8, "n_step": 1, "ratio": 2, **REPLAY},
    ),
    "rewards by component": ("dqn", "learner", {"env": PAYING, **REPLAY}),
    "texts": ("grpo", "learner", {**TEXTS, **ENDLESS}),
    "a population": ("my_population.py:workload", "one", {"total_updates": 10**6}),
    "past versions": ("pasts.py:self_play", "learner", {"actors": 2, "total_updates": 10**6}),
    "a league": ("pasts.py:league", "self", {"actors": 2, "total_steps": 10**9}),
}  # fmt: skip
"""A workload, the learner that is killed, and settings."""


@pytest.fixture
def own(code: Path) -> None:
    for name in ("my_goals.py", "my_population.py", "my_self_play.py", "my_league.py"):
        shutil.copy(ROOT / "docs" / "examples" / name, code)
    shutil.copy(ROOT / "tests" / "artos" / "envs" / "paying_for_tests.py", code / "paying.py")
    shutil.copy(Path(__file__).with_name("pasts.py"), code)


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize("case", CASES)
def test_it_goes_on_without_its_learner_and_a_node_and_when_resumed(
    case: str, cluster: Cluster
) -> None:
    workload, learner, settings = CASES[case]
    actors = range(int(settings.get("actors", 1)))

    def goes_on() -> None:
        def updates() -> int:
            return sum(line.get("by") == learner for line in cluster.journal())

        before = updates()
        cluster.until(lambda: updates() >= before + 20)

    cluster.begin(workload, **settings)
    for node in ("w1", "w2"):
        cluster.open(node)
    cluster.place({actor: ("w2", "w1")[actor] for actor in actors})
    goes_on()
    cluster.kill_learner(learner)
    goes_on()
    cluster.kill_node("w2")
    cluster.place(dict.fromkeys(actors, "w1"), "w2", why="it was silent for 15 s")
    goes_on()
    cluster.stop()
    before = cluster.finish()
    assert before["outcome"] == "interrupted", cluster.said()
    assert before["restarts"] == 2
    cluster.begin(workload, resume=True, **settings)
    cluster.open("w1")
    cluster.place(dict.fromkeys(actors, "w1"))
    goes_on()
    cluster.stop()
    summary = cluster.finish()
    assert summary["outcome"] == "interrupted", cluster.said()
    assert summary["updates"] >= before["updates"] + 20
    counted_on = 2 if settings.get("checkpoint") == "all" else 0
    assert summary["restarts"] == counted_on, "nobody failed at what there was to go on with"
    if (pasts := cluster.folder / "pasts.jsonl").exists():
        said = {tuple(json.loads(line)) for line in pasts.read_text().splitlines()}
        assert len(said) == len({version for version, *_ in said}), "each is always the same"
    assert cluster.survivors() == []
