"""Replay end to end: a learner that knows its environment finds every drawn row right."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from real_runs import Outcome

from head.records.progress_log import read_history

pytestmark = pytest.mark.processes

INLINE, PROCESSES = ("--inline",), ()


def run(
    artos: Callable[..., Outcome], home: Path, env: str, pattern: str, mode: tuple[str, ...]
) -> dict[str, float]:
    """The learner's last counts, after a run of the workload."""
    shutil.copy(Path(__file__).with_name("checked_replay.py"), home)
    settings = ("--env", f"checked_replay:{env}", "--set", f"pattern={pattern}")
    run = ("run", "checked_replay.py:checked", "--json", "--run-dir", "off", *settings, *mode)
    outcome = artos(*run)
    assert outcome.status == 0, outcome.err
    assert outcome.summary["restarts"] == (1 if env == "deadly" else 0)
    last = read_history(home / "off" / "progress.csv")[-1]
    names = ("wrong", "checked", "ended", "bootstrapped")
    return {name: float(last[f"metrics/{name}"]) for name in names}


@pytest.mark.long
@pytest.mark.parametrize(
    ("env", "pattern", "mode"),
    [
        ("single", "uniform", INLINE),
        ("disabled", "prioritised", INLINE),
        ("next_step", "sequences", INLINE),
        ("single", "prioritised", PROCESSES),
        ("disabled", "sequences", PROCESSES),
        ("deadly", "uniform", PROCESSES),
        ("deadly", "prioritised", PROCESSES),
        ("deadly", "sequences", PROCESSES),
    ],
)
def test_every_drawn_row_is_what_happened(
    env: str, pattern: str, mode: tuple[str, ...], artos: Callable[..., Outcome], home: Path
) -> None:
    counts = run(artos, home, env, pattern, mode)
    assert counts["wrong"] == 0
    assert counts["checked"] > 1_000
    assert counts["ended"] > counts["bootstrapped"] > 100


def test_an_environment_that_hides_its_final_observations_is_refused(
    artos: Callable[..., Outcome], home: Path
) -> None:
    shutil.copy(Path(__file__).with_name("checked_replay.py"), home)
    env = ("--env", "checked_replay:same_step")
    outcome = artos("run", "checked_replay.py:checked", *env)
    assert outcome.status == 2
    assert "environment checked_replay:same_step begins the next episode in the" in outcome.err
    assert "autoreset_mode=AutoresetMode.NEXT_STEP or DISABLED" in outcome.err
