"""Runs whose learner is several processes come out bit for bit once more, also after kills."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from named import LEARNER, acting
from real_runs import TINY, Artos, kill_each

from artos.runs.tape import Published, read, tapes
from artos.specs.members import Member
from deploy.replay.opening import replayed

pytestmark = [pytest.mark.processes, pytest.mark.long]

Start = Callable[..., Artos]
SECOND = Member(LEARNER.role, 1)
(FIRST_ACTOR,) = acting(0)
DRAWING = (
    "--set",
    "replay=prioritised",
    "--set",
    "after=64",
    "--set",
    "batch=33",
    "--set",
    "ratio=4",
)
WORDS = {
    "ppo": (*TINY, "--set", "max_lag=1", "--set", "learners=2"),
    "dqn": (*DRAWING, "--set", "hidden=16", "--set", "learners=3"),
}


@pytest.mark.parametrize("algorithm", ["ppo", pytest.param("dqn", marks=pytest.mark.exhaustive)])
def test_replicas_that_are_killed_one_after_the_other(
    algorithm: str, start: Start, home: Path
) -> None:
    run = home / "run"
    words = ("run", algorithm, "--env", "CartPole-v1", "--actors", "2", *WORDS[algorithm])
    process = start(*words, "--set", "total_updates=100000", "--run-dir", run)
    kill_each(process, run, (SECOND, FIRST_ACTOR, LEARNER), ("learner", "actor 0", "actor 1"))
    more = json.loads((run / "checkpoint" / "manifest.json").read_text())["updates"] + 20
    again = start("run", "--resume", run, "--set", f"total_updates={more}", "--json").wait()
    assert again.status == 0, again.err
    assert [path.name for path in tapes(run, "learner")] == [f"learner-{n}.tape" for n in range(4)]
    found = replayed(run, trust=True)
    assert (found.first_difference, found.ended) == (None, "")
    made = [each for path in tapes(run, "learner") for each in read(path)[1]]
    published = sum(isinstance(each, Published) for each in made)
    assert found.versions >= published > 10, "and those of which only the next tape has a checksum"
    assert not [*home.glob("*.log")]
