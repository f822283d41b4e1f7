"""A run whose members, and then itself, are killed: what is asked of its files is answered."""

from __future__ import annotations

import json
import math
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from helpers import PATIENCE, SUPPORT
from named import LEARNER, acting
from real_runs import Artos, journal, updates

from artos.specs.members import Member

pytestmark = [pytest.mark.processes, pytest.mark.long]

KILLS = 10


@contextmanager
def run_of(home: Path) -> Iterator[Artos]:
    """A run that is slow enough not to end meanwhile; what it leaves is removed."""
    shutil.copy(SUPPORT / "counting.py", home)
    (home / "slow").touch()
    words = ("run", "counting.py:workload", "--run-dir", "run", "--total-steps", 36_000)
    artos = Artos(home, words)
    try:
        yield artos
    finally:
        artos.end()
        psutil.wait_procs(artos.survivors(), timeout=PATIENCE)
        said(home, "clean")


def said(home: Path, *words: object) -> str:
    """What `artos WORDS` prints; its exit status is 0."""
    folder = home / "asked"
    folder.mkdir(exist_ok=True)
    outcome = Artos(folder, words).wait()
    assert outcome.status == 0, outcome.err
    return outcome.out


def why(home: Path, member: Member) -> dict[str, Any]:
    """What is found; it says of its restarts how many, if they took long enough to be named."""
    run = home / "run"
    found = json.loads(said(home, "why", run, "--json"))
    assert found.keys() >= {"bottleneck", "advice", "shares"}
    for name, kinds in found["shares"].items():
        assert math.isclose(sum(kinds.values()), 1.0, abs_tol=0.01), name
    assert found["shares"][str(member)]["wait: restart"] > 0
    words = said(home, "why", run)
    for each in (found, *found["others"]):
        if each["bottleneck"] == "restarts":
            assert f"{member} died {KILLS} x" in each["figure"]
            assert all(advice in words for advice in each["advice"])
    return found


@pytest.mark.parametrize("member", [LEARNER, *acting(0)], ids=str)
def test_the_killed_run_can_be_looked_at(member: Member, tmp_path: Path) -> None:
    name, run = str(member), tmp_path / "run"

    def is_back_from(deaths: int) -> bool:
        lines = journal(run)
        died = [at for at, line in enumerate(lines) if line.get("died") == name]
        return len(died) == deaths and any(x.get("by") == name for x in lines[died[-1] :])

    with run_of(tmp_path) as artos:
        artos.until(lambda: updates(run) > 3)
        for deaths in range(1, KILLS + 1):
            artos.kill(member)
            artos.until(lambda: is_back_from(deaths))  # noqa: B023
        before = updates(run)
        artos.until(lambda: updates(run) > before + 2)
        why(tmp_path, member)
        assert artos.process.poll() is None
        artos.children()
        artos.signal(signal.SIGKILL)
        artos.process.wait(PATIENCE)
        why(tmp_path, member)

        said(tmp_path, "plot", run, "-o", tmp_path / "figures")
        said(tmp_path, "report", run, "-o", tmp_path / "report.html")
        said(tmp_path, "trace", run, "-o", tmp_path / "trace.json")
        written = [*(tmp_path / "figures").iterdir(), tmp_path / "report.html"]
        assert len(written) > 2
        assert all(each.stat().st_size for each in written)
        events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
        assert sum(event["name"] == "died" for event in events) == KILLS
