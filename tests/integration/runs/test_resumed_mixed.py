"""Runs whose rows are handed over to one learner and drawn by another: stopped, killed, resumed."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from helpers import PATIENCE, ROOT
from real_runs import Artos, Outcome

from artos.buffer.shm_folder import PREFIX
from artos.runs.checkpoint import Manifest, read_manifest
from artos.system.shm import shm_root
from deploy.replay.opening import replayed

pytestmark = [pytest.mark.processes, pytest.mark.long]

RUN = ("run", "mixing.py:mixed", "--json", "--run-dir", "off", "--total-steps", "1000000")
ALL = ("--set", "checkpoint=all")
When = Callable[[Manifest], bool]
EMPTY = "replay buffer: it is empty"


@pytest.fixture(autouse=True)
def _workload(home: Path) -> None:
    shutil.copy(Path(__file__).with_name("mixing.py"), home)


def lines(home: Path, name: str) -> list[Any]:
    with (home / f"{name}.jsonl").open("a+") as file:  # it may not be there yet
        file.seek(0)
        return [json.loads(line) for line in file if line.endswith("\n")]


def ended(
    running: Artos, home: Path, how: signal.Signals, when: When = lambda saved: True
) -> Manifest:
    """The checkpoint of a run that is stopped once both learners have long been at work."""
    checkpoint = home / "off" / "checkpoint"

    def due() -> bool:
        if not (checkpoint / "manifest.json").exists():
            return False
        saved = read_manifest(checkpoint)
        return saved.steps > 3_000 and when(saved)

    running.until(due)
    running.signal(how)
    running.process.wait(PATIENCE)
    return read_manifest(checkpoint)


def gone_on(artos: Callable[..., Outcome], before: Manifest, *more: str) -> Outcome:
    again = artos(
        "run", "--resume", "off", "--json", "--total-steps", before.steps + 2_048, *more
    )  # fmt: skip
    assert again.status == 0, again.err
    assert again.summary["steps"] >= before.steps + 2_048
    assert again.summary["rows_lost"] == again.summary["rows_stale"] == 0
    assert [*shm_root().glob(f"{PREFIX}off.*")] == [], "nothing is left"
    return again


@pytest.mark.parametrize(
    ("how", "more"),
    [(signal.SIGKILL, ()), (signal.SIGINT, ()), (signal.SIGKILL, ALL), (signal.SIGINT, ALL)],
    ids=["killed", "stopped", "killed, all saved", "stopped, all saved"],
)
def test_drawn_rows_are_there_again_and_each_row_is_handed_over_once(
    start: Callable[..., Artos], artos: Callable[..., Outcome], home: Path,
    how: signal.Signals, more: tuple[str, ...],
) -> None:  # fmt: skip
    before = ended(start(*RUN, *more), home, how)
    again = gone_on(artos, before)
    assert EMPTY not in again.err
    for actor, border in enumerate(before.rows):
        handed = [c for claims in lines(home, "handed") for c in claims if c[1] == actor]
        first = [(begin, end) for part, _, begin, end in handed if part == 0 and end <= border]
        second = [(begin, end) for part, _, begin, end in handed if part == 1]
        assert first[-1][1] == second[0][0] == border > 0, "it goes on where it was"
        rounds = [*first, *second]
        assert all(stop == begin for (_, stop), (begin, _) in pairwise(rounds))
    drawn = [oldest for part, oldest, _ in lines(home, "drawn") if part == 1]
    assert drawn[0] < min(before.rows), "rows of before are drawn, and none is waited for"


def test_a_buffer_that_was_overwritten_since_the_checkpoint_begins_again(
    start: Callable[..., Artos], artos: Callable[..., Outcome], home: Path
) -> None:
    """Rows of before are gone, and rows that come must not be taken for theirs."""
    running = start(*RUN, "--set", "capacity=64")

    def overwritten() -> list[bool]:
        borders = read_manifest(home / "off" / "checkpoint").rows
        newest = {c[1]: c[3] for claims in lines(home, "handed") for c in claims}
        return [newest.get(actor, 0) >= border + 64 for actor, border in enumerate(borders)]

    running.until(lambda: (home / "off/checkpoint/manifest.json").exists() and all(overwritten()))
    running.signal(signal.SIGKILL)
    running.process.wait(PATIENCE)
    before, gone = read_manifest(home / "off" / "checkpoint"), overwritten()
    again = gone_on(artos, before)
    begun = {c[1]: c[2] for claims in reversed(lines(home, "handed")) for c in claims if c[0] == 1}
    for actor, border in enumerate(before.rows):
        assert begun[actor] in ([0] if gone[actor] else [0, border])
    assert (EMPTY in again.err) == (not any(begun.values()))


def test_the_replay_of_a_run_that_was_killed_when_its_blocks_had_wrapped(
    start: Callable[..., Artos], artos: Callable[..., Outcome], home: Path
) -> None:
    """Rows that came after the checkpoint had been drawn, and took the place of others."""

    def ahead(saved: Manifest) -> bool:
        newest = max(newest for _, _, newest in lines(home, "drawn"))
        return min(saved.rows) > 600 and max(saved.rows) <= newest < max(saved.rows) + 300

    before = ended(start(*RUN, "--set", "capacity=600"), home, signal.SIGKILL, ahead)
    again = gone_on(artos, before)
    assert EMPTY not in again.err
    found = replayed(home / "off", trust=True)
    assert (found.equal, found.first_difference, found.ended) == (True, None, "")
    early = replayed(home / "off", until=3, trust=True)
    assert (early.equal, early.first_difference, early.ended) == (True, None, "")


def test_policies_with_replay_and_whole_episodes_go_on(
    start: Callable[..., Artos], artos: Callable[..., Outcome], home: Path
) -> None:
    """Each agent's row is claimed by itself; all policies have the same rows again."""
    shutil.copy(ROOT / "docs" / "examples" / "my_market.py", home)
    running = start("run", "my_market.py:workload", *RUN[2:])
    before = ended(running, home, signal.SIGINT)
    assert before.rows_file is not None
    again = gone_on(artos, before)
    assert EMPTY not in again.err
    saved = read_manifest(home / "off" / "checkpoint")
    assert sum(saved.rows) > sum(before.rows) > 0, (saved.rows, before.rows)
    assert again.summary["replay_ratio"] > 0
