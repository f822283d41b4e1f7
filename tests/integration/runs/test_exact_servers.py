"""Asynchronous runs whose actors ask servers, some killed, come out bit for bit once more."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers import ROOT
from named import LEARNER, acting
from real_runs import Artos, kill_each
from served_guesses import GUESSING

from artos.errors import Refused
from artos.runs.answers import files
from artos.specs.members import Member
from deploy.replay.opening import replayed

pytestmark = [pytest.mark.processes, pytest.mark.long]

Start = Callable[..., Artos]
FIRST, SECOND = acting(0, 1)
CENTRAL = ("--set", "inference=central", "--set", "splits=2")
REPLAY = ("--actors", "2", "--set", "ratio=4", "--set", "hidden=32", "--set", "envs=2")
CASES = {
    "ppo": ("ppo", *CENTRAL, "--set", "max_lag=1"),
    "dqn": ("dqn", *CENTRAL, *REPLAY, "--set", "spread=7"),
    "sac": ("sac", *CENTRAL, *REPLAY),
    "r2d2": ("r2d2", *CENTRAL, *REPLAY),
}


def assert_exact(run: Path, versions: int) -> None:
    found = replayed(run, trust=True)
    assert (found.first_difference, found.ended) == (None, "")
    assert found.versions >= versions


def asked(start: Start, home: Path, case: str) -> Path:
    """A run of central inference, in which everybody was killed, resumed once."""
    run = home / "run"
    process = start("run", *CASES[case], "--total-steps", 10_000_000, "--run-dir", run)
    kill_each(process, run, (FIRST, Member("inference"), LEARNER, SECOND), ("learner",))
    more = json.loads((run / "checkpoint" / "manifest.json").read_text())["steps"] + 20_000
    again = start("run", "--resume", run, "--set", f"total_steps={more}", "--json").wait()
    assert again.status == 0, again.err
    return run


@pytest.mark.parametrize(
    "case",
    [
        "ppo",
        "dqn",
        *(
            pytest.param(case, marks=pytest.mark.exhaustive)
            for case in CASES
            if case not in ("ppo", "dqn")
        ),
    ],
)
def test_actors_are_told_what_they_were_told(case: str, start: Start, home: Path) -> None:
    run = asked(start, home, case)
    assert len(files(run, "inference")) >= 3
    assert_exact(run, 16)


def test_answers_that_are_lacking(start: Start, home: Path) -> None:
    """Damaged, cut off, or not there."""
    run = asked(start, home, "ppo")
    first = files(run, "inference")[0]
    whole = first.read_bytes()
    first.write_bytes(whole[: len(whole) // 2])
    assert "inference's answer to a request of actor " in replayed(run, trust=True).ended
    begin = whole.index(b"\n") + 1
    (size,) = struct.unpack_from("<Q", whole, begin)
    at = begin + size - 1  # in the last value of the first answer
    first.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    assert str(replayed(run, trust=True).first_difference).startswith("actor ")
    first.write_bytes(whole.partition(b"\n")[2])
    with pytest.raises(Refused, match="these are no answers of this ARTOS"):
        replayed(run, trust=True)
    for each in files(run, "inference"):
        each.unlink()
    with pytest.raises(Refused, match="what inference answered was not recorded"):
        replayed(run, trust=True)


def test_a_server_may_draw_at_random(start: Start, home: Path) -> None:
    shutil.copy(ROOT / "docs" / "examples" / "my_judge.py", home)
    (home / "guessing.py").write_text(GUESSING)
    run = home / "run"
    process = start("run", "guessing.py:workload", "--run-dir", run, "--total-steps", 10_000_000)
    kill_each(process, run, (Member("judge"), FIRST), ("learner",))
    assert_exact(run, 8)
