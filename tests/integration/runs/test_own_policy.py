"""A scaling policy in a user's own file: in a real run, over a stop, and when it is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers import unrolled
from real_runs import Artos, Outcome, shared_memory

from deploy.local.run import resume, run
from head.run.request import Request

POLICY = """
from dataclasses import dataclass, replace
from artos import ScalingPolicy
from faulty_algorithms import good
from triggers import DataKeyTrigger, ObjectKeyTrigger

KEYS = ("observations", "actions", "rewards")
TABLE = {
    "learner.update": DataKeyTrigger(KEYS, size=16),
    "actors.sample": ObjectKeyTrigger("model_param"),
}


@dataclass
class Stairs(ScalingPolicy):
    least: int = 1
    most: int = 3
    fails_at: int = -1

    def decide(self, seen, memory):
        if seen.update == self.fails_at:
            raise RuntimeError("my policy is wrong")
        memory.setdefault("asked", []).append(seen.update)
        return self.least + len(memory["asked"]) // 4


def workload(total_steps: int = 480, fails_at: int = -1):
    stairs = Stairs(fails_at=fails_at)
    return replace(good(), triggers=TABLE, actors=stairs, total_steps=total_steps)


undecided = replace(good(), triggers=TABLE, actors=Stairs(least=0))
"""


@pytest.fixture
def own(home: Path) -> Path:
    (home / "own.py").write_text(POLICY)
    return home


def kept(folder: Path) -> dict[str, Any]:
    """What the checkpoint has of the policy."""
    found: dict[str, Any] = json.loads((folder / "checkpoint" / "manifest.json").read_text())
    return {name: found["scaling"][name] for name in ("actors", "update", "memory")}


@pytest.mark.long
@pytest.mark.processes
def test_it_decides_in_a_run(artos: Callable[..., Outcome], own: Path) -> None:
    outcome = artos("run", "own.py:workload", "--run-dir", "r", "--json")
    assert outcome.status == 0, outcome.err
    numbers = unrolled(outcome.summary["actors_by_update"])
    assert numbers[0] == 1
    assert numbers == sorted(numbers), "who is wanted joins when it is ready"
    found = kept(own / "r")
    assert found["actors"] == 3
    assert found["memory"] == {"asked": [*range(found["update"] + 1)]}


def test_a_run_that_was_stopped_goes_on_with_what_it_remembers(own: Path) -> None:
    def begin(name: str, steps: int) -> list[int]:
        settings, folder = {"total_steps": steps}, own / name
        request = Request("own.py:workload", settings, 3, folder, True, True, folder=own)
        return unrolled(run(request).actors_by_update)

    assert set(begin("whole", 480)) == {1, 2, 3}
    begin("parts", 112)
    half = kept(own / "parts")
    assert half["memory"]["asked"][-1] == half["update"] < kept(own / "whole")["update"]
    resume(own / "parts", {"total_steps": 480}, quiet=True, trust=True)
    assert kept(own / "parts")["memory"]["asked"] == [*range(kept(own / "parts")["update"] + 1)]
    assert kept(own / "parts")["actors"] == kept(own / "whole")["actors"]


@pytest.mark.long
@pytest.mark.processes
@pytest.mark.parametrize("mode", [(), ("--inline",)], ids=["processes", "inline"])
def test_one_that_raises_ends_the_run_and_what_was_learned_is_saved(
    mode: tuple[str, ...], artos: Callable[..., Outcome], own: Path
) -> None:
    outcome = artos(
        "run", "own.py:workload", "--run-dir", "r", "--json", "--set", "fails_at=5", *mode
    )
    assert outcome.status == 1
    assert "Stairs failed when it was asked about update 5" in outcome.err
    assert "RuntimeError: my policy is wrong" in outcome.err
    assert kept(own / "r")["memory"] == {"asked": [0, 1, 2, 3, 4]}
    assert not shared_memory()
    healed = artos("run", "--resume", "r", "--json", "--set", "fails_at=-1")
    assert healed.status == 0, healed.err


@pytest.mark.processes
def test_one_that_makes_no_sense_is_refused_at_the_door(
    artos: Callable[..., Outcome], own: Path
) -> None:
    outcome = artos("run", "own.py:undecided", "--json")
    assert outcome.status == 2
    assert "actors=Stairs(…): Stairs: there must be at least 1 actor, not 0" in outcome.err
    assert not list(own.glob("runs"))


@pytest.mark.processes
def test_it_is_explained(start: Callable[..., Artos], own: Path) -> None:
    outcome = start("explain", "own.py:workload").wait()
    assert outcome.status == 0, outcome.err
    assert "1 to 3 actors as Stairs decides" in outcome.out
