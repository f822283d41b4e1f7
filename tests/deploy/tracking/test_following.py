"""A run is sent to a tracker once, whatever becomes of the run meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec
import pytest

from artos.errors import Refused
from artos.protocol.usage import Usage
from artos.protocol.views import Status
from deploy.client.copied import remember
from deploy.tracking.following import Following
from deploy.tracking.trackers import NAMES, UNNAMED, place, project, require
from head.records.episodes import Ended
from head.records.progress_log import ProgressLog, scalars
from head.records.run_folder import RunFolder
from head.records.status import Summary
from head.records.tracker import Classes, Tracked, Tracker

ASKED = {"workload": "ppo", "settings": {"lr": 1e-3, "hidden": [64]}, "folder": "", "seed": 7}
FIRST = Status(
    "ppo", "CartPole-v1", steps=100, updates=1, metrics={"loss": 0.5},
    lags={"0": 3, "2-3": 1}, waited={"actors.wait/0.001": 4, "actors.wait/inf": 1},
)  # fmt: skip


def at(steps: int, updates: int = 1) -> Status:
    return msgspec.structs.replace(FIRST, steps=steps, updates=updates)


class Told(Tracker):
    """Writes down what it is told."""

    def __init__(self, tracked: Tracked) -> None:
        self.tracked, self.id = tracked, tracked.id or "made"
        self.rows: list[tuple[int, Mapping[str, float]]] = []
        self.histograms: list[tuple[int, str, Classes]] = []
        self.files: list[str] = []
        self.outcome: str | None = None

    def on_progress(self, step: int, values: Mapping[str, float]) -> None:
        self.rows.append((step, values))

    def on_histogram(self, step: int, name: str, counts: Classes) -> None:
        self.histograms.append((step, name, counts))

    def on_artifact(self, path: Path) -> None:
        self.files.append(path.name)

    def close(self, outcome: str) -> None:
        self.outcome = outcome

    @property
    def steps(self) -> list[int]:
        return [step for step, _ in self.rows]


_sending = ExitStack()


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for variable in ("WANDB_PROJECT", "MLFLOW_EXPERIMENT_NAME"):
        monkeypatch.delenv(variable, raising=False)
    with _sending:
        yield tmp_path / "first"


@contextmanager
def running(path: Path) -> Iterator[tuple[RunFolder, ProgressLog]]:
    with RunFolder.create(path, ASKED) as folder, ProgressLog(folder) as log:
        yield folder, log


def following(path: Path, project: str = "mine", place: str = "here") -> tuple[Following, Told]:
    """One that sends the run; the one before it is over, though it may not have come to its end."""
    told: list[Told] = []
    _sending.close()

    def open_(tracked: Tracked) -> Tracker:
        told.append(Told(tracked))
        return told[-1]

    run = _sending.enter_context(Following(path, "wandb", project, place, open_, patience=0.0))
    return run, told[0]


def test_rows_come_once_by_the_names_that_tensorboard_has(path: Path) -> None:
    with running(path) as (_, log):
        log.write(at(100))
        run, told = following(path)
        assert run.forward()
        assert not run.forward()
        log.write(at(200, 2))
        assert run.forward()
    assert told.steps == [100, 200]
    assert told.rows[0][1] == scalars(at(100))
    assert (told.tracked.name, told.tracked.project) == ("first", "mine")
    assert told.tracked.settings["settings.lr"] == 1e-3
    assert told.tracked.settings["seed"] == 7


def test_a_file_that_gets_a_new_column_is_read_anew_and_no_row_twice(path: Path) -> None:
    with running(path) as (_, log):
        log.write(at(100))
        run, told = following(path)
        run.forward()
        log.write(msgspec.structs.replace(at(200), metrics={"loss": 0.5, "later": 2.0}))
        run.forward()
    assert told.steps == [100, 200]
    assert told.rows[1][1]["metrics/later"] == 2.0


def test_half_a_row_is_waited_for(path: Path) -> None:
    with running(path) as (folder, log):
        log.write(at(100))
        whole = folder.progress.read_bytes()
        folder.progress.write_bytes(whole[:-5])
        run, told = following(path)
        run.forward()
        assert told.steps == []
        with folder.progress.open("ab") as file:
            file.write(whole[-5:])
        run.forward()
        assert told.steps == [100]


def test_what_was_sent_before_a_run_was_resumed_is_not_sent_again(path: Path) -> None:
    with running(path) as (folder, log):
        for steps in (100, 200, 300):
            log.write(at(steps, steps // 100))
        run, told = following(path)
        run.forward()
        with ProgressLog(folder, resumed_at=100) as resumed:
            for steps in (210, 300, 410):
                resumed.write(at(steps, steps // 100))
            again, told_again = following(path)
            while again.forward():
                pass
    assert told.steps == [100, 200, 300]
    assert told_again.tracked.id == "made"
    assert told_again.steps == [410]


def evaluated(version: int) -> Status:
    return msgspec.structs.replace(at(300, 3), evaluation={"version": version, "mean_return": 9.0})


def test_an_evaluation_is_sent_though_training_was_over_before_it(path: Path) -> None:
    """Rows are written meanwhile, of which only the last one has it; so also of a run resumed."""
    with running(path) as (_, log):
        log.write(evaluated(2))
        run, told = following(path)
        run.forward()
        log.write(evaluated(2))
        log.write(evaluated(3))
        run.forward()
        assert [values["evaluation/version"] for _, values in told.rows] == [2, 3]
        again, told_again = following(path)
        again.forward()
        log.write(evaluated(4))
        again.forward()
    assert [values["evaluation/version"] for _, values in told_again.rows] == [4]


def test_histograms_go_on_where_they_were_whichever_process_sends_them(path: Path) -> None:
    """What each has of it adds up to all rows and episodes, each once."""
    with running(path) as (folder, log):
        for part in range(3):
            for row in range(25 * part + 1, 25 * part + 26):
                log.episodes([Ended(4 * row, float(row), 4)])
                log.write(msgspec.structs.replace(at(4 * row, row), lags={"0": 2 * row}))
            run, told = following(path)
            while run.forward():
                pass
            if part == 2:
                folder.write_summary(Summary(FIRST, Usage(), seed=1, outcome="done"))
                folder.close()
            run.finish()
            assert {step for step, _, _ in told.histograms} == [{80}, {160}, {240, 300}][part]
            spread = [run.sent.spread[1], run.sent.rows]
            assert spread == [[20, 25], [40, 50], [75, 75]][part]
            counted = [sum(c.values()) for _, name, c in told.histograms if name == "lags"]
            assert counted == [[40], [40], [40, 30]][part]
            ended = [sum(c.values()) for _, name, c in told.histograms if name == "episodes/return"]
            assert ended == [[20], [20], [20, 15]][part]


def test_a_run_without_steps_is_told_by_its_updates(path: Path) -> None:
    with running(path) as (_, log):
        for updates in (1, 2, 3):
            log.write(at(0, updates))
        run, told = following(path)
        run.forward()
    assert len(told.rows) == 3


def test_it_follows_until_the_run_is_over(path: Path) -> None:
    with running(path) as (folder, log):
        log.write(at(100))
        run, told = following(path)
        left = [lambda: log.write(at(200, 2)), folder.close]

        def wait() -> None:
            left.pop(0)()

        run.follow(wait)
    assert (told.steps, left) == ([100, 200], [])


def test_a_copy_is_followed_until_the_run_that_it_is_of_is_over(path: Path) -> None:
    with running(path) as (_, log):
        log.write(at(100))
        rows = (path / "progress.csv").read_bytes()
        log.write(at(200, 2))
        all_rows = (path / "progress.csv").read_bytes()
    (path / "progress.csv").write_bytes(rows)
    remember(path, "running")

    def wait() -> None:
        (path / "progress.csv").write_bytes(all_rows)
        remember(path, "done")

    run, told = following(path)
    run.follow(wait)
    assert told.steps == [100, 200]


def finished(path: Path, outcome: str = "done") -> None:
    with running(path) as (folder, log):
        log.write(at(100))
        folder.write_summary(Summary(FIRST, Usage(), seed=1, outcome=outcome))


@pytest.mark.parametrize("outcome", ["done", "interrupted", "failed"])
def test_the_end_is_told_with_its_files(path: Path, outcome: str) -> None:
    finished(path, outcome)
    run, told = following(path)
    run.forward()
    run.finish()
    assert told.outcome == outcome
    assert told.files == ["config.json", "summary.json", "episodes.csv"]
    assert [name for _, name, _ in told.histograms] == ["lags", "waited/actors.wait"]


def test_a_run_that_was_killed_has_failed(path: Path) -> None:
    with running(path) as (_, log):
        log.write(at(100))
    run, told = following(path)
    run.forward()
    run.finish()
    assert told.outcome == "failed"


def test_a_live_run_is_left_open(path: Path) -> None:
    with running(path) as (_, log):
        log.write(at(100))
        run, told = following(path)
        run.forward()
        run.finish()
    assert (told.outcome, told.files) == ("", [])


def test_what_is_sent_already_costs_nothing(path: Path) -> None:
    finished(path)
    for _ in range(2):
        run, told = following(path)
        run.forward()
        run.finish()
    assert (told.rows, told.files, told.outcome) == ([], [], "done")


def test_a_run_that_is_done_twice_has_its_files_sent_twice(path: Path) -> None:
    with running(path) as (folder, _):
        pass
    for steps in (100, 200):
        with ProgressLog(folder) as log:
            log.write(at(steps, steps // 100))
            folder.write_summary(Summary(FIRST, Usage(), seed=1, outcome="done"))
        run, told = following(path)
        run.forward()
        run.finish()
        assert (told.steps, told.outcome) == ([steps], "done")
        assert told.files == ["config.json", "summary.json", "episodes.csv"]


def test_a_run_is_sent_to_a_tracker_by_one_process_at_a_time(path: Path) -> None:
    finished(path)
    run, told = following(path)
    run.forward()
    with pytest.raises(Refused, match=r"another process sends .*first to wandb.*wait until"):
        Following(path, "wandb", "mine", "here", Told, patience=0.0)
    Following(path, "mlflow", "mine", "here", Told, patience=0.0).finish()
    run.finish()
    assert told.outcome == "done"
    Following(path, "wandb", "mine", "here", Told, patience=0.0).finish()


def test_a_tracker_that_cannot_be_opened_keeps_no_other_from_it(path: Path) -> None:
    finished(path)

    def fails(tracked: Tracked) -> Tracker:
        raise ConnectionError(tracked.name)

    for _ in range(2):
        with pytest.raises(ConnectionError):
            Following(path, "wandb", "mine", "here", fails, patience=0.0)


@pytest.mark.parametrize(("project", "place"), [("other", "here"), ("mine", "there")])
def test_another_place_is_told_from_the_begin(path: Path, project: str, place: str) -> None:
    finished(path)
    for _ in range(2):
        following(path)[0].forward()
    run, told = following(path, project, place)
    run.forward()
    assert (told.tracked.id, told.steps) == ("", [100])
    run, told = following(path, project, place)
    run.forward()
    assert (told.tracked.id, told.steps) == ("made", [])


def test_each_tracker_has_its_own_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_PROJECT", "ours")
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "theirs")
    found = [project(name) for name in NAMES]
    assert found == [UNNAMED, "ours", "theirs", UNNAMED]
    monkeypatch.setenv("WANDB_PROJECT", "")
    assert project("wandb") == UNNAMED


def test_what_an_earlier_version_sent_is_not_sent_again(path: Path) -> None:
    with running(path) as (_, log):
        log.write(msgspec.structs.replace(at(100), evaluation={"version": 1, "mean_return": 9.0}))
    (path / "tracked").mkdir()
    file = path / "tracked" / "wandb.json"
    file.write_text('{"id": "abc of a run", "steps": 100, "updates": 1, "rows": 1}')
    run, told = following(path)
    run.forward()
    assert (told.tracked.id, told.steps) == ("abc of a run", [])


@pytest.mark.parametrize(
    ("name", "variable", "value", "kept"),
    [
        ("tensorboard", "TENSORBOARD_LOGGING_DIR", "", False),
        ("tensorboard", "TENSORBOARD_LOGGING_DIR", "/logs", True),
        ("mlflow", "MLFLOW_TRACKING_URI", "", False),
        ("mlflow", "MLFLOW_TRACKING_URI", "sqlite:///runs.db", False),
        ("mlflow", "MLFLOW_TRACKING_URI", "sqlite:////runs.db", True),
        ("mlflow", "MLFLOW_TRACKING_URI", "http://there:5000", True),
        ("mlflow", "MLFLOW_TRACKING_URI", "databricks", True),
        ("trackio", "TRACKIO_DIR", "runs", False),
        ("trackio", "TRACKIO_DIR", "", True),
        ("wandb", "WANDB_BASE_URL", "", True),
    ],
)
def test_a_place_is_another_one_from_another_folder_if_it_lies_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, variable: str, value: str,
    kept: bool,
) -> None:  # fmt: skip
    monkeypatch.setenv(variable, value)
    before = place(name)
    monkeypatch.chdir(tmp_path)
    assert (place(name) == before) is kept
    monkeypatch.setenv(variable, "http://else:1")
    assert place(name) != before


def test_weights_are_the_best_ones_and_only_if_wanted(path: Path) -> None:
    finished(path)
    for name in ("best", "checkpoint"):
        (path / name).mkdir(exist_ok=True)
        (path / name / f"{name}.safetensors").write_bytes(b"x")
    run, told = following(path)
    run.finish(weights=True)
    assert told.files[-1] == "best.safetensors"


def test_files_that_a_folder_links_to_are_not_sent(path: Path, tmp_path: Path) -> None:
    finished(path)
    (tmp_path / "key").write_text("secret")
    (path / "best").mkdir()
    for name in ("curve.png", "evaluations.csv", "best/key.safetensors"):
        (path / name).symlink_to(tmp_path / "key")
    (path / "best" / "own.safetensors").write_bytes(b"x")
    (tmp_path / "link").symlink_to(path)
    run, told = following(tmp_path / "link")
    run.finish(weights=True)
    assert told.files == ["config.json", "summary.json", "episodes.csv", "own.safetensors"]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("progress.csv", b"steps\n12\n"),
        ("tracked/wandb.json", b"{"),
        ("tracked/wandb.json", b'{"id": "/tmp/x"}'),
        ("tracked/wandb.json", b'{"id": ".."}'),
    ],
)
def test_a_damaged_record_is_named(path: Path, file: str, text: bytes) -> None:
    finished(path)
    (path / "tracked").mkdir()
    (path / file).write_bytes(text)
    with pytest.raises(Refused, match=file.rpartition("/")[2]):
        following(path)[0].forward()


@pytest.mark.parametrize("version", ["nan", "inf", "1e300", "0.5", "-2", "x"])
def test_a_damaged_version_of_an_evaluation_is_named(path: Path, version: str) -> None:
    with running(path) as (folder, log):
        log.write(evaluated(77))
    text = folder.progress.read_text()
    folder.progress.write_text(text.replace(",77,", f",{version},"))
    with pytest.raises(Refused, match=r"progress\.csv"):
        following(path)[0].follow(lambda: None)


def test_an_unknown_tracker_is_refused() -> None:
    with pytest.raises(Refused, match="tensorboard, wandb, mlflow, trackio"):
        require("aim")


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    missing: Callable[[str], None] = lambda name: None  # noqa: E731
    monkeypatch.setattr("importlib.util.find_spec", missing)
    with pytest.raises(Refused, match=r"pip install 'artos\[mlflow\]'"):
        require("mlflow")
