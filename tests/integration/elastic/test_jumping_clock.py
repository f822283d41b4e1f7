"""The time of day jumps by hours in every process of a run, whose actors wait as images."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from counted import WHEN
from elastic import needs_criu
from elastic_runs import ElasticRun, assert_exact, assert_nothing_left
from helpers import ROOT

pytestmark = [pytest.mark.processes, needs_criu, pytest.mark.long]

JUMPING = Path(__file__).parents[1] / "failures" / "jumping"
HOUR = 3600 * 10**9
STEPS = 2 * 16 * 12


def test_nobody_goes_by_the_time_of_day(start: Callable[..., ElasticRun], home: Path) -> None:
    run = start(
        "counted.py:workload", "--total-steps", STEPS, park="checkpoint",
        environment={"PYTHONPATH": f"{JUMPING}:{ROOT}"},
    )  # fmt: skip
    found = run.done()
    lives = assert_exact(run.folder, STEPS)
    for (life,) in lives.values():
        assert np.ptp(life[:, WHEN]) > HOUR, "the clock did not jump"
    assert found["restarts"] == 0
    assert found["starts"]["restore"]["count"] > 2
    assert 0 < found["seconds"] < 3600
    assert all(0 <= seconds < 3600 for seconds in found["times"].values())
    assert_nothing_left(home)
