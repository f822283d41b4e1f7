"""A run that saves all goes on to the last bit as if it had never ended, wherever actors waited."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from books import episodes
from elastic import needs_criu
from elastic_runs import ElasticRun, assert_nothing_left
from real_runs import checkpointed

pytestmark = [pytest.mark.processes, pytest.mark.long]

SMALL = {"envs": 2, "steps": 16, "minibatches": 2, "epochs": 2, "max_lag": 0, "anneal": "false"}
ROUND = 2 * 2 * 16
WAYS = [
    ("cold", "memory"),
    pytest.param("fork", "freeze", marks=pytest.mark.exhaustive),
    pytest.param("clone", "checkpoint", marks=needs_criu),
]


@pytest.mark.parametrize(("way", "park"), WAYS)
def test_in_two_parts_it_is_the_same(
    way: str, park: str, start: Callable[..., ElasticRun], home: Path
) -> None:
    """Environments in mid-episode, every random stream, what actors and learner hold."""
    command = ("ppo", "--env", "drawn:Noisy", "--actors", 2, "--seed", 4)
    settings = {**SMALL, "checkpoint": "all", "start": way, "park": park}
    whole = start(*command, "--total-steps", 12 * ROUND, **settings)
    whole.done()
    expected, played = checkpointed(whole.folder), episodes(whole.folder)
    whole.folder.rename(home / "whole")
    first = start(*command, "--total-steps", 7 * ROUND, **settings)
    first.done()
    manifest = json.loads((first.folder / "checkpoint" / "manifest.json").read_text())
    assert manifest["not_restored"] == []
    second = start("--resume", first.folder, "--total-steps", 12 * ROUND)
    found = second.done()
    assert "everything is restored" in second.said
    assert found["steps"] == 12 * ROUND
    assert_nothing_left(home)
    resumed = checkpointed(second.folder)
    assert resumed.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(resumed[name], array, err_msg=name)
    assert episodes(second.folder) == played
