"""The number of actors of a live run changes, by hand and by a schedule."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from elastic import needs_criu
from elastic_runs import ElasticRun, assert_exact, assert_nothing_left, numbers_of_actors
from helpers import unrolled
from real_runs import Artos

pytestmark = [pytest.mark.processes, needs_criu]

Start = Callable[..., ElasticRun]


@pytest.mark.long
def test_up_and_down_by_hand(start: Start, home: Path) -> None:
    (home / "slow").touch()
    run = start(
        "counted.py:workload", "--actors", "2..6", "--total-steps", 6000, "--run-dir", "run",
        park="auto",
    )  # fmt: skip
    run.until(lambda: run.updates)
    for number in (5, 3, 6, 2):
        status, words = scale(home, number)
        assert status == 0
        assert words.startswith(f"{number} of 6 ")
        run.until(lambda: numbers_of_actors(run.folder)[-1:] == [number])  # noqa: B023
    status, words = scale(home, 7)
    assert status == 2
    assert "6 are registered" in words
    status, words = scale(home, 0)
    assert status == 2
    (home / "slow").unlink()
    found = run.done()
    assert {2, 3, 5, 6} <= set(unrolled(found["actors_by_update"])) <= {2, 3, 4, 5, 6}
    assert unrolled(found["actors_by_update"])[-1] == 2
    assert found["restarts"] == 0
    lives = assert_exact(run.folder, found["steps"])
    assert set(lives) == set(range(6))
    assert all(len(of) == 1 for of in lives.values()), "who left and came back went on"
    assert_nothing_left(home)


def scale(home: Path, number: int) -> tuple[int, str]:
    """`artos scale`: its exit status and what it said."""
    folder = home / "scale"
    folder.mkdir(exist_ok=True)
    outcome = Artos(folder, ("scale", home / "run", number)).wait()
    return outcome.status, (outcome.out + outcome.err).strip()


@pytest.mark.long
def test_a_schedule_is_kept_to_the_update(start: Start, home: Path) -> None:
    numbers = [2] * 5 + [4] * 5 + [6] * 5 + [2] * 5
    run = start(
        "counted.py:workload", "--actors", "0:2,5:4,10:6,15:2", "--total-steps", 16 * sum(numbers),
        park="checkpoint", start="clone",
    )  # fmt: skip
    found = run.done()
    assert unrolled(found["actors_by_update"]) == numbers
    lives = assert_exact(run.folder, 16 * sum(numbers))
    rounds = {actor: len(of[0]) // 16 for actor, of in lives.items()}
    assert rounds == {0: 20, 1: 20, 2: 10, 3: 10, 4: 5, 5: 5}
    assert found["starts"]["clone"]["count"] == 6
    assert_nothing_left(home)
