from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from head.records import progress_log
from head.records.evaluations import Evaluated
from head.records.progress_log import (
    FIXED,
    ProgressLog,
    flatten,
    last_status,
    read_history,
    scalars,
)
from head.records.reading import DamagedRecord
from head.records.run_folder import RunFolder
from head.records.status import Status

MakeStatus = Callable[..., Status]


def table(path: Path) -> list[list[str]]:
    with path.open(newline="") as file:
        return list(csv.reader(file))


def test_every_status_is_a_row_under_its_column(folder: RunFolder, status: MakeStatus) -> None:
    log = ProgressLog(folder)
    log.write(status(steps=1000, fill={"rewards": 0.25}, times={"learn": 1.5}))
    log.write(status(steps=2000, mean_return_100=None, fill={"rewards": 0.5}))
    log.close()
    rows = read_history(folder.progress)
    assert [row["steps"] for row in rows] == ["1000", "2000"]
    assert [row["fill/rewards"] for row in rows] == ["0.25", "0.5"]
    assert [row["times/learn"] for row in rows] == ["1.5", ""]
    assert [row["mean_return_100"] for row in rows] == ["21.5", ""]
    assert rows[0]["env"] == "CartPole-v1"


def test_the_newest_status_is_read_back(folder: RunFolder, status: MakeStatus) -> None:
    assert last_status(folder.progress) is None
    log = ProgressLog(folder)
    assert last_status(folder.progress) is None
    log.write(status(steps=1000))
    newest = status(
        steps=2000, mean_return_100=None, fill={"rewards": 0.5}, metrics={"loss": -2.5e-05},
        waits={"learner": "rows", "actor 0": 'running sample (firing 3), "so"'},
        times={"learn": 1.5},
    )  # fmt: skip
    log.write(newest)
    log.close()
    assert last_status(folder.progress) == newest
    with folder.progress.open("ab") as file:
        file.write(b"ppo,CartPole-v1,1")  # the next one is being written
    assert last_status(folder.progress) == newest


def test_so_is_one_without_an_environment(folder: RunFolder, status: MakeStatus) -> None:
    newest = status(env="", learners={"model.updates": 3.0})
    with ProgressLog(folder) as log:
        log.write(newest)
    assert last_status(folder.progress) == newest


@pytest.mark.parametrize("text", [b"", b"steps\n"])
def test_what_has_no_rows_has_no_newest_status(text: bytes, tmp_path: Path) -> None:
    (tmp_path / "progress.csv").write_bytes(text)
    assert last_status(tmp_path / "progress.csv") is None


@pytest.mark.parametrize("text", [b"steps\n12\n", b"\xff\n\xff\n", b"a,b\n1\n"])
def test_what_is_no_progress_is_damaged(text: bytes, tmp_path: Path) -> None:
    (tmp_path / "progress.csv").write_bytes(text)
    with pytest.raises(DamagedRecord, match=r"progress\.csv is damaged"):
        last_status(tmp_path / "progress.csv")


def test_a_metric_that_appears_later_gets_a_column_and_no_row_is_ragged(
    folder: RunFolder, status: MakeStatus
) -> None:
    log = ProgressLog(folder)
    log.write(status(steps=1))
    log.write(status(steps=2, metrics={"loss": 0.5}))
    log.write(status(steps=3, metrics={"kl": 0.1}, waits={"learner": "32 of 64, rows"}))
    log.close()
    header, *rows = table(folder.progress)
    assert header == [*FIXED, "metrics/loss", "waits/learner", "metrics/kl"]
    assert {len(row) for row in rows} == {len(header)}
    assert [row[-3] for row in rows] == ["", "0.5", ""]
    assert rows[2][-2:] == ["32 of 64, rows", "0.1"]


@pytest.mark.parametrize("killed", [False, True])
def test_a_long_file_gets_a_column_piece_by_piece(
    killed: bool, folder: RunFolder, status: MakeStatus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run waits for none but a piece with each row, and the last row has all there is."""
    log, waits = ProgressLog(folder), {"learner": "32 of 64, rows"}
    for steps in range(20):
        log.write(status(steps=steps, waits=waits))
    monkeypatch.setattr(progress_log, "_PIECE", folder.progress.stat().st_size // 4)
    log.write(status(steps=20, waits=waits, metrics={"loss": 0.5}))
    log.write(status(steps=21, waits=waits, metrics={"loss": 0.5, "kl": 0.1}))
    before = table(folder.progress)
    assert before[0] == [*FIXED, "waits/learner"]
    assert len([*folder.path.glob(".*.tmp")]) == 1
    if killed:
        log = ProgressLog(folder)
    for steps in range(22, 30):
        log.write(status(steps=steps, waits=waits, metrics={"loss": 0.5}))
    log.write(status(steps=30, metrics={"loss": 0.5, "kl": 0.1, "clip": 1.0}), last=True)
    log.close()
    header, *rows = table(folder.progress)
    assert header[: len(before[0]) + 1] == [*before[0], "metrics/loss"]
    assert {len(row) for row in rows} == {len(header)}
    found = read_history(folder.progress)
    assert [row["steps"] for row in found] == [str(steps) for steps in range(31)]
    assert [row["waits/learner"] for row in found[:30]] == [waits["learner"]] * 30
    assert found[29]["metrics/loss"] == "0.5"
    assert [found[30][f"metrics/{name}"] for name in ("loss", "kl", "clip")] == ["0.5", "0.1", "1"]
    assert not [*folder.path.glob(".*.tmp")]


@given(
    st.lists(
        st.dictionaries(st.text(max_size=6), st.floats() | st.integers(0, 99), max_size=3),
        min_size=1, max_size=5,
    )
)  # fmt: skip
def test_any_metrics_keep_the_csv_rectangular(
    tmp_path_factory: pytest.TempPathFactory, metrics: list[dict[str, float]]
) -> None:
    base = Status("a\nb", 'c,"d', 0, 0, 1, 0, 0, 0, None, 0, 0, 0, 0, 0)
    with RunFolder.create(tmp_path_factory.mktemp("run"), {}) as folder:
        with ProgressLog(folder) as log:
            for number, some in enumerate(metrics):
                log.write(Status(**{**as_dict(base), "steps": number, "metrics": some}))
        header, *rows = table(folder.progress)
    assert len(set(header)) == len(header)
    assert [row[header.index("steps")] for row in rows] == [str(i) for i in range(len(metrics))]
    assert {len(row) for row in rows} == {len(header)}


def as_dict(status: Status) -> dict[str, object]:
    return {name: getattr(status, name) for name in Status.__struct_fields__}


def test_a_resumed_run_appends_under_the_same_header(folder: RunFolder, status: MakeStatus) -> None:
    for steps in (1, 2):
        log = ProgressLog(folder)
        log.write(status(steps=steps, metrics={"loss": float(steps)}))
        log.episodes([(steps, float(steps), steps)])
        log.close()
    assert [row["metrics/loss"] for row in read_history(folder.progress)] == ["1", "2"]
    assert folder.episodes.read_text() == "step,return,length\n1,1.0,1\n2,2.0,2\n"


def test_what_was_logged_after_the_checkpoint_is_dropped_on_resume(
    folder: RunFolder, status: MakeStatus
) -> None:
    log = ProgressLog(folder)
    for steps in (100, 200, 300):
        log.write(status(steps=steps))
        log.episodes([(steps, 1.0, 9)])
    log.close()
    log = ProgressLog(folder, resumed_at=200)
    log.write(status(steps=250))
    log.episodes([(250, 2.0, 9)])
    assert [row["steps"] for row in read_history(folder.progress)] == ["100", "200", "250"]
    assert log.past_episodes().steps.tolist() == [100, 200, 250]
    log.close()


def test_a_run_without_actors_goes_back_to_its_updates(
    folder: RunFolder, status: MakeStatus
) -> None:
    with ProgressLog(folder) as log:
        for updates in (1, 2, 3):
            log.write(status(steps=0, updates=updates))
    with ProgressLog(folder, 0, updates=2) as log:
        log.write(status(steps=0, updates=3))
    assert [row["updates"] for row in read_history(folder.progress)] == ["1", "2", "3"]


@pytest.mark.parametrize("cut", range(1, 12))
def test_a_row_cut_short_by_a_kill_is_left_out_and_not_continued(
    folder: RunFolder, status: MakeStatus, cut: int
) -> None:
    log = ProgressLog(folder)
    log.write(status(steps=1))
    log.write(status(steps=2))
    log.episodes([(7, 1.5, 10), (7, 2.5, 20)])
    log.close()
    for path in (folder.progress, folder.episodes):
        path.write_bytes(path.read_bytes()[:-cut])
    assert [row["steps"] for row in read_history(folder.progress)] == ["1"]
    log = ProgressLog(folder)
    log.write(status(steps=3))
    log.episodes([(8, 3.5, 30)])
    assert [row["steps"] for row in read_history(folder.progress)] == ["1", "3"]
    kept = 1 if cut < len("7,2.5,20\n") + 1 else 0
    np.testing.assert_array_equal(log.past_episodes().returns, [1.5, 3.5][1 - kept :])
    log.close()


def test_trackers_get_every_finite_number(status: MakeStatus) -> None:
    found = scalars(status(metrics={"loss": 0.5, "bad": float("nan")}, lags={"0": 3}))
    assert found["metrics/loss"] == 0.5
    assert found["run/mean_return_100"] == 21.5
    assert not {"metrics/bad", "run/algorithm", "lags/0"} & found.keys()


@pytest.mark.parametrize(
    ("column", "cell"),
    [
        ("lags/x", "1"),
        ("lags/2-", "1"),
        ("lags/0", "-1"),
        (f"lags/{'9' * 5000}", "1"),
        ("waited/x", "1"),
        ("waited/actors.wait/x", "1"),
        ("waited/actors.wait/nan", "1"),
    ],
)
def test_what_is_no_class_of_a_distribution_is_damage(
    folder: RunFolder, status: MakeStatus, column: str, cell: str
) -> None:
    log = ProgressLog(folder)
    log.write(
        status(lags={"0": 3, "2-3": 1}, waited={"actors.wait/0.001": 1, "actors.wait/inf": 0})
    )
    log.close()
    assert last_status(folder.progress) is not None
    header, row = folder.progress.read_text().splitlines()
    folder.progress.write_text(f"{header},{column}\n{row},{cell}\n")
    with pytest.raises(DamagedRecord, match=r"progress\.csv"):
        last_status(folder.progress)


def test_the_fixed_columns_are_the_status_fields() -> None:
    groups = (
        "fill", "waits", "metrics", "times", "shares", "evaluation", "usage", "skipped", "settings",
        "learners", "returns", "lags", "waited",
    )  # fmt: skip
    assert {*FIXED, *groups} == set(Status.__struct_fields__)
    assert groups == tuple(progress_log._GROUPS)


def test_names_of_metrics_cannot_break_a_line(status: MakeStatus) -> None:
    assert "metrics/a b" in flatten(status(metrics={"a\nb": 1.0}))


MADE = [Evaluated(v, 10 * v, v, v / 3, 0.25, 4, 7.5, 0.5) for v in (0, 3, 6)]


def test_evaluations_come_back_as_they_were_logged(folder: RunFolder) -> None:
    with ProgressLog(folder) as log:
        assert log.past_evaluations() == []
        assert not folder.evaluations.exists()
        log.evaluated(MADE[:1])
        log.evaluated([])
        log.evaluated(MADE[1:])
        assert log.past_evaluations() == MADE


def test_an_evaluation_that_found_no_room_at_first_has_its_header(folder: RunFolder) -> None:
    for resumed_at in (None, 100):
        with ProgressLog(folder, resumed_at, 9) as log:
            folder.evaluations.write_text("")  # the disk was full once the file was made
            log.evaluated(MADE)
            assert log.past_evaluations() == MADE


def test_files_that_never_got_a_line_get_their_headers(
    folder: RunFolder, status: MakeStatus
) -> None:
    for path in (folder.progress, folder.episodes, folder.evaluations):
        path.write_text("vers")
    with ProgressLog(folder, 100, 9) as log:
        log.write(status())
        log.episodes([(10, 1.25, 3)])
        log.evaluated(MADE)
        assert (log.past_evaluations(), len(log.past_episodes())) == (MADE, 1)
    assert len(read_history(folder.progress)) == 1


def test_a_resumed_run_has_the_evaluations_up_to_its_checkpoint(folder: RunFolder) -> None:
    with ProgressLog(folder) as log:
        log.evaluated(MADE)
    with folder.evaluations.open("a") as file:
        file.write("7,70,7,1.")  # a kill cut it off
    for version, kept in ((6, MADE), (5, MADE[:2]), (2, MADE[:1])):
        with ProgressLog(folder, 20, version) as log:
            assert log.past_evaluations() == kept
