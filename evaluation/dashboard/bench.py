"""``artos bench dashboard``: how soon a long run is shown, and what browsers cost the head."""

from __future__ import annotations

import tempfile

from evaluation.baselines import processes
from evaluation.core.benchmark import LAB, Benchmark
from evaluation.core.report import OURS, Results
from evaluation.core.runner import Contestant, Say, alternate, ours
from evaluation.dashboard.served import TIMELINE_SECONDS

MEGABYTES, BROWSERS = 1_000, 20
OPEN_GOAL, HEAD_GOAL = 2.0, 5.0
"""Seconds until a run of 1 GB is shown, and percent of a core that 20 browsers cost the head."""
DRAWN_GOAL = 0.5 * BROWSERS / TIMELINE_SECONDS
"""Timelines a second: half of what would be asked for if every answer came at once."""
_DEADLINE_SECONDS = 900.0


def measure(repeats: int, quick: bool, say: Say = print) -> Results:
    """Open the timeline of a long run, and have browsers look at a head; ``quick`` is shorter."""
    results = Results("dashboard", repeats)
    megabytes, seconds = (2, "2") if quick else (MEGABYTES, "20")
    opened = f"timeline of a journal of {megabytes:,} MB: {OURS}"
    about = f"what is said of that run: {OURS}"
    packed = f"that journal on the disk: {OURS}"
    costs = f"what {BROWSERS} browsers cost the head: {OURS}"
    alone = f"the head of 10 workers, with nobody who looks: {OURS}"
    own = f"the dashboard's own process with {BROWSERS} browsers: {OURS}"
    follow = {
        1: f"what {BROWSERS} browsers that follow a run's timeline cost the head: {OURS}",
        BROWSERS: f"what {BROWSERS} that follow timelines of as many runs cost it: {OURS}",
    }
    drawn = {
        1: f"timelines drawn a second, {BROWSERS} pages of one run: {OURS}",
        BROWSERS: f"timelines drawn a second, {BROWSERS} pages, each of another run: {OURS}",
    }
    with tempfile.TemporaryDirectory(prefix="artos-dashboard-") as folder:
        say(f"dashboard: writing a journal of {megabytes:,} MB")
        long_journal, fill = "dashboard.long_journal", ("--make", str(megabytes))
        processes.measure_ours(long_journal, folder, *fill, seconds=_DEADLINE_SECONDS)
        looked = ("--browsers", str(BROWSERS), "--seconds", seconds)
        alternate(
            results,
            [
                Contestant(
                    f"{OURS}, long journal",
                    {"seconds": (opened, "s"), "about": (about, "s"), "packed_mb": (packed, "MB")},
                    ours(long_journal, folder, seconds=_DEADLINE_SECONDS),
                ),
                Contestant(
                    f"{OURS}, browsers",
                    {"percent": (costs, "%"), "alone": (alone, "%"), "dashboard": (own, "%")},
                    ours("dashboard.browsers", *looked, seconds=_DEADLINE_SECONDS),
                ),
                *(
                    Contestant(
                        f"{OURS}, timelines of {runs}",
                        {"percent": (case, "%"), "drawn": (drawn[runs], "1/s")},
                        ours(
                            "dashboard.browsers",
                            *looked,
                            "--timelines",
                            str(runs),
                            seconds=_DEADLINE_SECONDS,
                        ),
                    )
                    for runs, case in follow.items()
                ),
            ],
            repeats,
            say,
        )
    results.require(opened, OPEN_GOAL)
    for case in (costs, *follow.values()):
        results.require(case, HEAD_GOAL)
    for case in drawn.values():
        results.require(case, DRAWN_GOAL, "at least")
    return results


BENCHMARK = Benchmark(
    measure,
    (
        *LAB,
        "deploy/client/fetch.py",
        "deploy/dashboard",
        "deploy/tracing",
        "triggers/journal_index.py",
        "head/daemon",
    ),
)
