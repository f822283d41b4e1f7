"""A run whose disk is full before it begins: refused with words, and nothing is left or lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from disks import full, needs_mount, small_disk
from real_runs import Artos, book_of, shared_memory

pytestmark = [pytest.mark.processes, needs_mount]

WORKLOAD = ("counting.py:workload", "--inline")
REFUSED = "No space left on device; make room, or choose another --run-dir"


@pytest.mark.parametrize("size", ["4k", "8k", "12k"])
def test_there_is_room_for_some_of_the_records(
    start: Callable[..., Artos], home: Path, size: str
) -> None:
    """Its settings fit, then the progress, the episodes or the events do not."""
    with small_disk(home / "disk", size) as disk:
        outcome = start("run", *WORKLOAD, "--total-steps", 320, "--run-dir", disk / "run").wait()
        assert [*disk.iterdir()] == []
    assert outcome.status == 2, outcome.err
    assert REFUSED in outcome.err
    assert not shared_memory()


def test_a_run_that_cannot_be_resumed_now_can_be_later(
    start: Callable[..., Artos], home: Path
) -> None:
    with small_disk(home / "disk", "8m") as disk:
        run = disk / "run"
        assert start("run", *WORKLOAD, "--total-steps", 320, "--run-dir", run).wait().status == 0
        with full(disk):
            outcome = start("run", "--resume", run, "--total-steps", 640).wait()
        assert outcome.status == 2, outcome.err
        assert REFUSED in outcome.err
        again = start("run", "--resume", run, "--total-steps", 640, "--json").wait()
        assert again.summary["steps"] == 640
        assert len(book_of(run)) == 640
    assert not shared_memory()
