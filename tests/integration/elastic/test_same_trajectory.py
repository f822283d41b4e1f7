"""However an actor is started and wherever it waits, it samples the same rows bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from counted import LIFE
from elastic import needs_criu
from elastic_runs import ElasticRun, assert_exact, assert_nothing_left
from real_runs import checkpointed, whole_timeline

pytestmark = [pytest.mark.processes, needs_criu]


SMALL = {"envs": 2, "steps": 16, "minibatches": 2, "epochs": 2, "max_lag": 0}
ROUNDS = 16
WAYS = [("cold", "memory"), ("fork", "freeze"), ("clone", "checkpoint"), ("fork", "checkpoint")]


@pytest.mark.long
def test_weights_learned_are_the_same_to_the_last_bit(
    start: Callable[..., ElasticRun], home: Path
) -> None:
    steps = 2 * 2 * 16 * ROUNDS
    learned, starts = [], []
    for way, park in WAYS:
        settings = {**SMALL, "start": way, "park": park}
        run = start(
            "ppo", "--env", "drawn:Noisy", "--actors", 2, "--total-steps", steps, "--seed", 4,
            **settings,
        )  # fmt: skip
        found = run.done()
        assert (found["steps"], found["restarts"]) == (steps, 0)
        starts.append({kind: stats["count"] for kind, stats in found["starts"].items()})
        learned.append(checkpointed(run.folder))
        assert_nothing_left(home)
        run.folder.rename(home / f"{way}-{park}")
    # That all of them did what was asked: else they are the same for no reason.
    assert starts[0] == {"cold": 2, "unpark": starts[0].get("unpark", 0)}
    assert starts[1].items() >= {"fork": 2}.items()
    assert starts[1]["thaw"] >= ROUNDS
    assert starts[2].items() >= {"clone": 2}.items()
    assert starts[3].items() >= {"fork": 2}.items()
    for restored in starts[2:]:
        assert restored["restore"] >= 2 * (ROUNDS - 2)
    for other in learned[1:]:
        assert other.keys() == learned[0].keys()
        for name, array in learned[0].items():
            np.testing.assert_array_equal(other[name], array, err_msg=name)


@pytest.mark.long
@pytest.mark.parametrize("way", ["clone", "fork"])
def test_each_has_a_stream_a_block_and_a_log_of_its_own(
    way: str, start: Callable[..., ElasticRun], home: Path
) -> None:
    actors, rounds = 4, 8
    run = start(
        "counted.py:workload", "--actors", actors, "--total-steps", actors * 16 * rounds,
        park="checkpoint", start=way,
    )  # fmt: skip
    found = run.done()
    assert found["starts"][way]["count"] == actors
    assert found["starts"]["restore"]["count"] >= actors * (rounds - 2)
    lives = assert_exact(run.folder, actors * 16 * rounds)
    for actor in range(actors):
        (life,) = lives[actor]  # one from the first image to the last
        assert len(life) == 16 * rounds
        said = (run.folder / "logs" / f"actor-{actor}.log").read_text()
        assert said == f"life {life[0, LIFE]} of actor {actor}\n"
    drawn = [span for span in whole_timeline(run.folder).spans if span.kind == "rest"]
    images = [span for span in drawn if span.name == "checkpointed"]
    assert {span.member for span in images} == {f"actor {actor}" for actor in range(actors)}
    assert len(images) >= actors * (rounds - 2)
    assert all(span.begin < span.end for span in images)
    assert_nothing_left(home)
