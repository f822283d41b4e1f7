"""What the elasticity benchmark runs of ours, small and for real."""

import json

import pytest
from elastic import needs_criu

from evaluation.baselines.processes import measure_ours

pytestmark = [pytest.mark.processes, pytest.mark.usefixtures("atari"), pytest.mark.long]

SMALL = ("--envs", "1", "--steps", "8")


def started(*arguments):
    return measure_ours(
        "elasticity.artos_start", *arguments, "--repeats", "1", *SMALL, seconds=240
    )[0]


def test_a_frozen_actor_comes_back():
    found = started("park", "--park", "freeze")
    assert found["out_s"] > 0
    assert found["into_s"] > 0


def test_forks_start_one_by_one_and_at_once():
    found = started("start", "--way", "fork", "--together", "2")
    assert set(found) == {"first_s", "one_s", "together_s.2", "mb.2"}
    assert min(found.values()) > 0


@needs_criu
def test_clones_start_at_once():
    found = started("start", "--way", "clone", "--together", "2")
    assert min(found[name] for name in ("first_s", "one_s", "together_s.2", "mb.2")) > 0


@needs_criu
@pytest.mark.parametrize("images", [("tmpfs",), ("disk", "--uncached")])
def test_a_checkpointed_actor_comes_back(images):
    found = started("park", "--park", "checkpoint", "--images", *images)
    assert min(found["out_s"], found["into_s"]) > 0
    assert found["freed_mb"] != 0


def test_an_adaptive_run_answers_for_every_update(tmp_path):
    path = tmp_path / "updates.json"
    schedule = ("--schedule", "1:0,2:2", "--count", "3", "--epochs", "1")
    arguments = (*schedule, "--updates", str(path), *SMALL)
    found, _ = measure_ours("elasticity.artos_adaptive", *arguments, seconds=240)
    assert [row["actors"] for row in json.loads(path.read_text())] == [1, 1, 2]
    assert found["run_s"] > found["seconds.learn"] > 0
    assert found["held_cpu_s"] > 0
