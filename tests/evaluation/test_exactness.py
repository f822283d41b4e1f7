"""Runs are disturbed and replayed, and one that does not come out the same is counted so."""

from __future__ import annotations

import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers import PATIENCE, ROOT, SUPPORT, python
from real_runs import TINY

from evaluation.exactness import __main__ as exactness

pytestmark = [pytest.mark.processes, pytest.mark.long]


@pytest.fixture
def _handlers() -> Iterator[None]:
    """Those of signals, which the program sets."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def test_a_run_that_is_disturbed(tmp_path: Path) -> None:
    few = ("--runs", 1, "--algorithms", "impala", "--folder", tmp_path / "runs")
    soon = ("--pause", 1.0, "--seed", 36)  # with this one somebody is killed as soon as it begins
    with python("-m", "evaluation.exactness", *few, *soon) as process:
        said, _ = process.communicate(timeout=PATIENCE)
    line, total = said.splitlines()
    kills, scalings = map(int, re.findall(r", (\d+) (?:kills|scalings)", line))
    assert line.startswith("impala-36: exact, ")
    assert kills > 0
    assert total.startswith("1 of 1 runs were replayed exactly: ")
    assert f", {kills} kills, {scalings} scalings; " in total
    assert process.returncode == 0


@pytest.mark.usefixtures("_handlers")
def test_a_run_that_nothing_repeats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It ends before anybody disturbs it."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.chdir(tmp_path)
    shutil.copy(SUPPORT / "late.py", tmp_path)
    case = exactness.Case(("ppo", "--env", "late:late", *TINY), 160)
    monkeypatch.setitem(exactness.CASES, "late", case)
    few = ("--runs", "1", "--algorithms", "late", "--pause", "1e6", "--folder", "runs")
    assert exactness.main(few) == 1
    line, total = capsys.readouterr().out.splitlines()
    assert line.startswith("late-1: NOT EXACT, ")
    assert line.endswith(" actor 0 wrote other rows in steps 32 to 47")
    assert total.startswith("0 of 1 runs were replayed exactly: ")
