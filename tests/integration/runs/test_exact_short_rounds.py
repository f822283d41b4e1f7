"""Runs whose rounds end early come out bit for bit once more, whenever their actors die."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers import ROOT
from named import acting
from real_runs import Artos, journal, kill_each

from deploy.replay.opening import replayed

pytestmark = [pytest.mark.processes, pytest.mark.long]

HERE = Path(__file__).parent


@pytest.fixture
def code(home: Path) -> Path:
    for file in (ROOT / "docs" / "examples" / "my_es.py", HERE / "short_rounds.py"):
        shutil.copy(file, home)
    return home


@pytest.mark.parametrize("ahead", [1, 3])
def test_actors_that_die_before_within_and_after_their_rounds(
    ahead: int, start: Callable[..., Artos], code: Path
) -> None:
    run, words = code / "run", ("--set", f"ahead={ahead}", "--total-updates", 100_000)
    artos = start("run", "short_rounds.py:workload", *words, "--run-dir", run)

    def rounds() -> list[Any]:
        """Lines of the first actor's fourth life."""
        lines = [line for line in journal(run) if "actor 0" in (line.get("ready"), line.get("by"))]
        lives = [at for at, line in enumerate(lines) if "ready" in line]
        return lines[lives[3] + 1 :] if len(lives) > 3 else []

    artos.until(lambda: len(rounds()) > 5)
    artos.signal(signal.SIGINT)
    assert artos.wait().status == 130
    ended = [line for line in rounds()[1:] if line.get("stop")]
    assert all(line["ended"] < line["stop"] for line in ended)
    # If the run hears late that a round is over, its rows may have been used and overwritten.
    assert any("rows" in line for line in ended)
    assert sum("kept" in line for line in journal(run)) == 1, "of the round that was not reported"
    found = replayed(run, trust=True)
    assert (found.first_difference, found.ended) == (None, "")


@pytest.mark.parametrize(
    ("change", "said"),
    [({"rows": 1}, "wrote other rows in step"), ({"ended": 499}, "rows instead of 499 in steps 0")],
)
def test_a_round_that_comes_out_differently_is_named_with_its_steps(
    change: dict[str, int], said: str, start: Callable[..., Artos], code: Path
) -> None:
    run = code / "run"
    words = ("run", "my_es.py:workload", "--set", "envs=4", "--total-steps", 0)
    words = (*words, "--total-updates", 100_000)
    kill_each(start(*words, "--run-dir", run), run, acting(0, 1), ("learner", "actor 0", "actor 1"))
    found = replayed(run, trust=True)
    assert (found.first_difference, found.ended) == (None, "")
    lines = journal(run)
    at = next(n for n, line in enumerate(lines) if line.get("by") == "actor 0" and "rows" in line)
    lines[at] |= change
    (run / "journal.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    again = replayed(run, trust=True)
    assert again.first_difference is not None
    assert str(again.first_difference).startswith("actor 0 wrote ")
    assert said in str(again.first_difference)
