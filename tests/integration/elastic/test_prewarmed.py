"""Real images: whoever waits as one has a process again while the learner still works."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from elastic import needs_images
from elastic_runs import ElasticRun, assert_exact, assert_nothing_left, hold_with_images
from real_runs import journal

pytestmark = [pytest.mark.processes, needs_images, pytest.mark.long]

ACTORS, UPDATES, ROUND = 2, 8, 16


def go_on(run: ElasticRun) -> None:
    """Let the learner end its update, and hold it in the next one.

    All actors are images, so the next update cannot have ended before the learner is held again.
    """
    (run.home / "held").unlink()
    run.until(lambda: not (run.home / "holding").exists())
    (run.home / "held").touch()
    run.until((run.home / "holding").exists)


def everybody_is_back(run: ElasticRun) -> bool:
    """They were ordered back in this update; all have a process, none an image, CRIU is done."""
    fired = [line["trigger"] for line in journal(run.folder) if "trigger" in line]
    # A dump that hit another one, and was done again, leaves its log beside the images.
    images = [path for path in run.images.glob("actor-*") if path.is_dir()]
    # Nothing yet if the run is younger than the journal's first flush.
    ordered = fired[-1:] == ["actors.prewarm"]
    return ordered and len(run.actors()) == ACTORS and not images and not [*run.requests()]


def test_everybody_is_back_while_the_learner_works(
    start: Callable[..., ElasticRun], home: Path
) -> None:
    """The learner ends its third update only once they are, so nobody can have waited."""
    steps = ACTORS * ROUND * UPDATES
    run = start(
        "counted.py:workload", "--actors", ACTORS, "--total-steps", steps, park="checkpoint",
        start="clone", prewarm="quantiles",
    )  # fmt: skip
    hold_with_images(run, ACTORS)
    go_on(run)
    hold_with_images(run, ACTORS)
    go_on(run)
    run.until(lambda: everybody_is_back(run))
    (home / "held").unlink()
    found = run.done()
    assert found["starts"]["prewarm"]["count"] >= ACTORS
    assert found["restarts"] == 0
    answers = [line for line in journal(run.folder) if str(line.get("by", "")).startswith("actor")]
    second, third, fourth = (
        [bool(line.get("waited")) for line in answers[ACTORS * n : ACTORS * (n + 1)]]
        for n in (1, 2, 3)
    )
    assert second == third == [True, True], "images that nobody has ordered back"
    assert fourth == [False, False]
    assert all(line["restored"] > 0.0 for line in answers[ACTORS * 3 : ACTORS * 4])
    assert [len(lives) for lives in assert_exact(run.folder, steps).values()] == [1] * ACTORS
    assert_nothing_left(home)
