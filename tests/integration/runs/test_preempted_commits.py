"""Actors that are preempted between two stores of a commit lose no round."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from real_runs import Outcome

pytestmark = [pytest.mark.processes, pytest.mark.long]

PREEMPTED = """
import random
import time

import gymnasium

from artos.buffer.key_header import KeyHeader

store = KeyHeader.set_written


def store_and_wait(header, step):
    store(header, step)
    if random.random() < 0.02:
        time.sleep(0.004)


KeyHeader.set_written = store_and_wait


def pole():
    return gymnasium.make("CartPole-v1")


def pendulum():
    return gymnasium.make("Pendulum-v1")
"""

SMALL = ("--set", "hidden=32", "--set", "batch=32", "--set", "ratio=4")
"""Few and quick updates: this is about actors."""


@pytest.mark.parametrize(("algorithm", "env"), [("dqn", "pole"), ("sac", "pendulum")])
def test_a_run_ends_with_all_its_steps(
    algorithm: str, env: str, home: Path, artos: Callable[..., Outcome]
) -> None:
    (home / "preempted.py").write_text(PREEMPTED)
    for seed in range(3):
        ended = artos(
            "run", algorithm, "--env", f"preempted:{env}", "--actors", 2, "--total-steps", 2048,
            "--seed", seed, "--run-dir", f"r{seed}", "--json", *SMALL,
        )  # fmt: skip
        assert ended.status == 0, ended.err
        summary = json.loads(ended.out)
        assert (summary["steps"], summary["outcome"]) == (2048, "done")
