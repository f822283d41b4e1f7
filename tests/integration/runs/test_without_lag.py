"""Asynchronous PPO with max_lag=0 is synchronous PPO, bit for bit."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from real_runs import Outcome, checkpointed

from deploy.local.run import run
from head.run.request import Request

Arrays = dict[str, NDArray[Any]]


@pytest.fixture
def learned(home: Path) -> Callable[..., Arrays]:
    """Run in this process; returns all arrays of the last checkpoint."""
    shutil.copy(Path(__file__).with_name("lagging.py"), home)

    def inline(name: str, **settings: Any) -> Arrays:
        target = home / name
        order = Request("lagging.py:workload", settings, 3, target, True, True, folder=home)
        summary = run(order)
        assert summary.status.updates == 12
        assert summary.status.lag_max == settings.get("lag", 0)
        return checkpointed(target)

    return inline


def same(found: Arrays, wanted: Arrays) -> bool:
    """Whether all of them are equal to the last bit."""
    return found.keys() == wanted.keys() and all(
        np.array_equal(found[name], array) for name, array in wanted.items()
    )


@pytest.mark.parametrize("table", ["async", "as many as there are", "transfers"])
def test_without_lag_it_is_the_synchronous_one(table: str, learned: Callable[..., Arrays]) -> None:
    wanted = learned("sync", table="sync")
    assert same(learned("found", table=table, lag=0), wanted)
    assert not same(learned("late", table=table, lag=1), wanted), "a lag would make a difference"


@pytest.mark.long
@pytest.mark.processes
def test_so_it_is_where_actors_could_run_ahead(
    learned: Callable[..., Arrays], artos: Callable[..., Outcome], home: Path
) -> None:
    wanted = learned("sync", table="sync")
    command = ("run", "lagging.py:workload", "--seed", 3, "--run-dir", "apart", "--json")
    outcome = artos(*command, "--set", "table=as many as there are")
    assert outcome.status == 0, outcome.err
    assert outcome.summary["lag_max"] == 0
    assert same(checkpointed(home / "apart"), wanted)
