"""A trigger that claims nothing and fires faster than the learner works is limited, and told."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers import ROOT
from real_runs import Artos, Outcome

pytestmark = pytest.mark.processes

FLOOD = """
import time
from dataclasses import dataclass, replace

from my_dqn import DQN, workload as dqn
from triggers import Firing, RoundTrigger, Trigger
from triggers.events import Arrived, Event


@dataclass
class EachArrival(Trigger):
    def check(self, event: Event, now: float) -> Firing | None:
        return Firing() if isinstance(event, Arrived) else None


class Slow(DQN):
    non_publishing = ("look",)

    def look(self, batch, call):
        time.sleep(0.05)


def workload(total_steps: int = 20_000, actors: int = 1):
    base = dqn(total_steps=total_steps, actors=actors)
    table = {"learner.look": EachArrival(), **base.triggers, "actors.sample": RoundTrigger()}
    return replace(base, name="flood", learner=Slow(lr=1e-3), steps=1, triggers=table)
"""


@pytest.fixture
def flood(home: Path) -> str:
    shutil.copy(ROOT / "docs/examples/my_dqn.py", home)
    (home / "flood.py").write_text(FLOOD)
    return "flood.py:workload"


@pytest.mark.long
@pytest.mark.parametrize("mode", [(), ("--inline", "--actors", 4)], ids=["processes", "inline"])
def test_updates_are_made_beside_it(
    mode: tuple[object, ...], flood: str, artos: Callable[..., Outcome]
) -> None:
    ended = artos("run", flood, "--total-steps", 1100, "--run-dir", "r", "--json", *mode)
    assert ended.status == 0, ended.err
    assert "learner.look fires faster than the learner works" in ended.err
    summary = json.loads(ended.out)
    assert summary["updates"] > 0
    assert summary["skipped"]["learner.look"] > 0


@pytest.mark.long
def test_it_can_be_stopped(flood: str, start: Callable[..., Artos], home: Path) -> None:
    run = start("run", flood, "--run-dir", "r", "--json")
    run.until(lambda: "fires faster" in run.said)
    run.signal(signal.SIGTERM)
    assert run.wait().status == 130
    assert json.loads((home / "r/summary.json").read_text())["outcome"] == "interrupted"
