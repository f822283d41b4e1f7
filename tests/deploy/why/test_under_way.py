"""What is not over yet counts, too: who is at work, or away, since the last line."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from test_who_takes_part import CONFIG, updates

from artos.system.locks import FileLock
from deploy.why.evidence import Evidence
from deploy.why.history import History
from deploy.why.report import report, words
from deploy.why.signs_of_life import went_on
from deploy.why.stalls import tell_apart

Line = dict[str, Any]
READY: tuple[Line, ...] = tuple(
    {"t": 0.1, "ready": member, "start": "fork", "seconds": 0.1}
    for member in ("learner", "actor 0", "actor 1")
)
SAMPLE: Line = {
    "t": 5.1, "firing": 11, "trigger": "actors.sample", "version": 5, "after": "learner"
}  # fmt: skip
HUNG: tuple[Line, ...] = (
    *READY, *updates(2, 1, 0.1), SAMPLE,
    {"t": 6.0, "done": 11, "by": "actor 0", "seconds": 0.9},
)  # fmt: skip
"""Five updates in turn; then actor 1 does not end its round."""
EARLY: tuple[Line, ...] = (*READY, {**SAMPLE, "t": 0.2, "firing": 1})
TABLE: dict[str, Line] = {"learner.update": {}, "actors.sample": {}}


def seen(
    lines: Sequence[Line], until: float, waits: dict[str, str] | None = None, **facts: Any
) -> Evidence:
    """What is known of a run that went on until then after these lines."""
    history = History(**facts).read(lines)
    history.goes_on(until, waits or {})
    tell_apart(history)
    return Evidence(history, {}, TABLE, 2, cpus=2)


def test_who_does_not_answer_is_at_work_and_the_others_wait_for_it() -> None:
    run = seen(HUNG, 30.0)
    last = run.history.waited_for("learner")
    assert last
    assert last.member == "actor 1"
    assert run.shares["actor 1"]["stall"] * 29.9 == pytest.approx(30.0 - 5.1 - 0.9)
    assert run.shares["learner"]["wait: actor 1"] * 29.9 == pytest.approx(24.9 + 5 * 0.9)
    assert run.shares["actor 0"]["wait: actor 1"] * 29.9 == pytest.approx(24.0)
    for kinds in run.shares.values():
        assert sum(kinds.values()) == pytest.approx(1.0)
    assert run.seconds == pytest.approx(30.0 - 1.1), "from the end of the first update on"


@pytest.mark.parametrize("more", [(), ({"t": 29.0, "queued": 0.01},)], ids=["", "queued"])
def test_lines_of_the_last_moments_may_be_on_their_way(more: Sequence[Line]) -> None:
    """That the loop waits for a CPU says nothing of a member."""
    assert seen(HUNG, 7.9).history.under_way == {}
    assert list(seen([*HUNG, *more], 30.0).history.under_way) == ["actor 1"]


def test_a_learner_at_work_is_waited_for_whoever_else_is() -> None:
    update = {"t": 5.9, "firing": 12, "trigger": "learner.update", "after": "actor 0"}
    run = seen([*HUNG, update], 30.0)
    assert list(run.history.under_way) == ["learner", "actor 1"]
    last = run.history.waited_for("learner")
    assert last
    assert last.member == "learner"


def test_who_died_and_is_not_back_is_started_again_all_that_time() -> None:
    died = {"t": 8.1, "died": "actor 1", "step": 80, "why": "killed"}
    run = seen([*HUNG, died], 30.0)
    last = run.history.waited_for("learner")
    assert last
    assert last.kept == pytest.approx({"restart": 24.9})
    assert run.share("restart") == pytest.approx(24.9 / 28.9)


def test_so_is_who_has_nothing_to_do() -> None:
    died = {"t": 8.1, "died": "actor 0", "step": 80, "why": "killed"}
    run = seen([*HUNG, died], 30.0)
    assert run.shares["actor 0"]["wait: restart"] * 29.9 == pytest.approx(21.9)


def test_who_asks_a_server_that_is_away_waits_for_it() -> None:
    died = {"t": 5.2, "died": "inference", "step": 0, "why": "killed"}
    for far, asked_by in ((False, []), (True, [1])):
        run = seen([*HUNG, died | {"asked_by": asked_by}], 30.0, servers=("inference",), far=far)
        last = run.history.waited_for("learner")
        assert last
        # It samples for as long as its rounds take, until it asks.
        assert last.held == pytest.approx({"inference": 24.0})


def test_what_the_status_says_that_a_member_lacks_is_what_it_waits_for() -> None:
    waits = {"actor 1": "a slot or its process", "learner": "rows"}
    run = seen(HUNG, 30.0, waits)
    assert run.share("a slot or its process") == pytest.approx(24.9 / 28.9)
    run = seen(HUNG, 30.0, {"actor 1": "running sample (firing 11)"})
    assert run.share("stall") == pytest.approx(24.0 / 28.9)


def test_who_takes_part_no_more_is_at_nothing() -> None:
    assert seen([*HUNG, {"actors": 1, "version": 5}], 30.0).history.under_way == {}
    one = {**SAMPLE, "actors": [0]}
    assert seen([*HUNG[:-2], one], 30.0).history.under_way.keys() == {"actor 0"}


# -- of a folder ---------------------------------------------------------------------------------


def folder_of(folder: Path, lines: Sequence[Line], at: float, seen_at: float) -> Path:
    """That of a run whose journal and progress were written at these times, since 1970."""
    (folder / "config.json").write_text(json.dumps(CONFIG))
    for name, text, when in (
        ("journal.jsonl", "".join(f"{json.dumps(line)}\n" for line in lines), at),
        ("progress.csv", "", seen_at),
    ):
        (folder / name).write_text(text)
        os.utime(folder / name, (when, when))
    return folder


def test_a_live_run_goes_on_until_now_and_a_killed_one_until_it_last_wrote(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, HUNG, 1_000.0, 1_024.0)
    assert went_on(folder, 5_000.0) == pytest.approx(24.0)
    lock = FileLock.take(folder / "run.lock")
    assert lock
    with lock:
        assert went_on(folder, 5_000.0) == pytest.approx(4_000.0)
    (folder / "summary.json").write_text("{}")
    assert went_on(folder, 5_000.0) is None, "it is over"


def test_a_run_that_stands_still_says_for_whom_it_waits(tmp_path: Path) -> None:
    said = report(folder_of(tmp_path, HUNG, 1_000.0, 1_024.0))
    assert said.bottleneck == "stall"
    assert said.waiting
    assert said.waiting.member == "actor 1"
    assert said.waiting.seconds == pytest.approx(24.9)
    assert "waiting     for actor 1, for 24.9 s" in list(words(said))


def test_of_a_live_run_up_to_now(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, HUNG, time.time() - 24.0, 0.0)
    lock = FileLock.take(folder / "run.lock")
    assert lock
    with lock:
        said = report(folder)
    assert said.waiting
    assert said.waiting.member == "actor 1"
    assert said.waiting.seconds >= 24.0


def test_before_the_first_update_it_is_too_early(tmp_path: Path) -> None:
    said = report(folder_of(tmp_path, EARLY, 1_000.0, 1_014.0))
    assert (said.bottleneck, said.figure) == ("too early", "no update is over yet")
    assert said.shares["actor 0"] == {"sample": 0.9929, "wait: learner": 0.0071}
    assert said.waiting
    assert said.waiting.seconds == pytest.approx(14.0)
    assert said.chain


def test_without_a_word_of_anybody_there_are_no_headings(tmp_path: Path) -> None:
    said = report(folder_of(tmp_path, [{"t": 0.01, "began": 1_000.0}], 1_000.0, 1_000.0))
    assert list(words(said)) == ["bottleneck  too early: no update is over yet"]
