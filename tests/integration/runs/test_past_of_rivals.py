"""An actor of one's own has past versions of other learners in real runs, killed and resumed."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from real_runs import Artos, Outcome, checkpointed, kill_each

from artos.buffer.past_versions import past_of
from artos.specs.members import Member

Start = Callable[..., Artos]
MANY = "total_updates=10000000"


@pytest.fixture
def run(home: Path) -> Path:
    shutil.copy(Path(__file__).with_name("rivals.py"), home)
    return home / "run"


def manifest_of(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "checkpoint" / "manifest.json").read_text())
    return found


def assert_goes_on(start: Start, run: Path, *how: str) -> None:
    """Ten updates more, from the versions that were saved and the past ones of both."""
    saved = manifest_of(run)
    total = saved["version"] + 10
    ended = start("run", "--resume", run, "--json", *how, "--set", f"total_updates={total}").wait()
    assert ended.status == 0, ended.err
    assert ended.summary["version"] == total
    (resumed,) = json.loads((run / "config.json").read_text())["resumed"]
    rival = past_of(saved["learners"]["rival"]["version"], 2, 3)
    assert len(rival) == 2
    assert sorted(resumed["past_of"]["rival"]) == sorted(rival)


@pytest.mark.parametrize("saved", ["model", "all"])
def test_it_goes_on_with_the_past_of_both(
    saved: str, artos: Callable[..., Outcome], run: Path, tmp_path: Path
) -> None:
    """With all of the run saved it meets the same ones as if it had not been interrupted."""
    begin = ("run", "rivals.py:workload", "--inline", "--set", f"checkpoint={saved}", "--run-dir")
    more = ("--set", "total_updates=40")
    for words in ((*begin, run), (*begin, tmp_path / "whole", *more)):
        ended = artos(*words)
        assert ended.status == 0, ended.err
    again = artos("run", "--inline", "--resume", run, *more, "--json")
    assert again.status == 0, again.err
    assert (again.summary["version"], again.summary["restarts"]) == (40, 0)
    if saved == "all":
        wanted = checkpointed(tmp_path / "whole")
        for name, array in checkpointed(run).items():
            np.testing.assert_array_equal(array, wanted[name], name)


@pytest.mark.long
@pytest.mark.processes
@pytest.mark.parametrize("how", [("--inline",), ()])
@pytest.mark.parametrize("saved", ["model", "all"])
def test_its_run_is_killed(saved: str, how: tuple[str, ...], start: Start, run: Path) -> None:
    begin = ("run", "rivals.py:workload", *how, "--run-dir", run, "--set", MANY)
    process = start(*begin, "--set", f"checkpoint={saved}")
    process.until((run / "checkpoint" / "manifest.json").exists)
    process.until(lambda: manifest_of(run)["version"] > 12)
    process.signal(signal.SIGKILL)
    process.wait()
    assert_goes_on(start, run, *how)
    assert process.survivors() == []


@pytest.mark.long
@pytest.mark.processes
@pytest.mark.parametrize("saved", ["model", "all"])
def test_its_members_are_killed(saved: str, start: Start, run: Path) -> None:
    begin = ("run", "rivals.py:workload", "--run-dir", run, "--set", MANY)
    process = start(*begin, "--set", f"checkpoint={saved}")
    victims = (Member("actors", 1), Member("rival"), Member("self"), Member("actors", 0))
    kill_each(process, run, victims, ("self", "rival", "actor 0", "actor 1"))
    assert_goes_on(start, run)
    assert process.survivors() == []
