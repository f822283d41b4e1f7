"""``artos metrics`` as a user meets it: refusals, and what is printed of a run's folder."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from artos.protocol.views import Status
from deploy.cli.__main__ import main
from head.records.progress_log import ProgressLog
from head.records.run_folder import RunFolder


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("ARTOS_HEAD", "ARTOS_KEYS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    asked = {"workload": "ppo", "settings": {}, "folder": ""}
    with RunFolder.create(tmp_path / "runs" / "first", asked) as folder, ProgressLog(folder) as log:
        log.write(Status("ppo", "CartPole-v1", steps=640, lags={"0": 64}, lag_mean=0.0))
    return tmp_path


def test_a_killed_run_that_is_named_is_told_in_full(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["metrics", "first"]) == 0
    text = capsys.readouterr().out
    assert 'artos_run_steps_total{run="first"} 640.0' in text
    assert 'artos_run_state{run="first",state="failed"} 1.0' in text
    assert 'artos_run_lag_versions_bucket{le="0.0",run="first"} 64.0' in text
    samples = [line for line in text.splitlines() if not line.startswith("#")]
    assert [line for line in samples if 'run="first"' not in line] == [], "of the cluster"


def test_of_a_run_with_damaged_records_the_state_is_told(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = home / "runs" / "first" / "progress.csv"
    file.write_text(file.read_text().replace("lags/0", "lags/x"))
    assert main(["metrics", "first"]) == 0
    text = capsys.readouterr().out
    assert 'artos_run_state{run="first",state="failed"} 1.0' in text
    assert "artos_run_lag_versions" not in text


def test_as_json_too(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["metrics", "first", "--json"]) == 0
    told = {each["name"]: each for each in json.loads(capsys.readouterr().out)["families"]}
    assert told["artos_run_steps"]["samples"] == [{"labels": {"run": "first"}, "value": 640}]
    (lags,) = told["artos_run_lag_versions"]["samples"]
    assert lags["value"]["counts"]["inf"] == 64


def test_the_board_needs_no_package_and_no_run(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    assert main(["metrics", "--board"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "ARTOS"


def test_without_the_package_it_says_which_extra_has_it(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    assert main(["metrics"]) == 2
    assert "pip install 'artos[metrics]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--listen", "9464"), "write HOST:PORT"),
        (("--listen", "127.0.0.1:port"), "write HOST:PORT"),
        (("--listen", "127.0.0.1:99999"), "write HOST:PORT"),
        (("--listen", "0.0.0.0:0"), "give --token FILE"),
        (("--listen", "[::]:0"), "give --token FILE"),
        (("--listen", "example.org:1"), "give --token FILE"),
        (("--listen", "127.0.0.1:0", "--token", "none"), "cannot be read"),
        (("--listen", "127.0.0.1:0", "--token", "short"), "16 characters"),
        (("second",), "no run"),
    ],
)
def test_what_cannot_be_is_refused(
    flags: tuple[str, ...], said: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "short").write_text("abc\n")
    assert main(["metrics", *flags]) in (1, 2)
    assert said in capsys.readouterr().err
