"""``artos eval``: what it prints, what it refuses, and how it is stopped."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from real_runs import Artos

import artos
from deploy.cli.__main__ import main
from deploy.display import counted_view

Toy = Callable[[str], str]


@pytest.fixture
def run(toy: Toy, capsys: pytest.CaptureFixture[str]) -> str:
    """A run's folder."""
    folder = toy("discrete")
    capsys.readouterr()
    return folder


def test_json_is_what_python_finds(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", run, "--episodes", "5", "--greedy", "--seed", "3", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    found = artos.load(run).evaluate(5, seed=3)
    assert said["mean_return"] == found.mean_return
    assert (said["episodes"], said["seed"], said["greedy"]) == (5, 3, True)
    assert tuple(said["returns"]) == found.returns
    assert tuple(said["lengths"]) == found.lengths


def test_by_name_in_a_table(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", Path(run).name, "--seed", "3"]) == 0
    title, columns, returns, lengths = capsys.readouterr().out.splitlines()
    assert title.startswith("ppo on toys_to_load:discrete after 256 steps: 10 episodes, sampling")
    assert columns.split() == ["mean", "std", "least", "most"]
    found = artos.load(run).evaluate(10, greedy=False, seed=3)
    assert returns.split()[:2] == ["return", f"{found.mean_return:.4g}"]
    assert lengths.split()[-1] == str(max(found.lengths))


def test_videos_are_named(run: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["eval", run, "--env", "toys_to_load:drawing", "--episodes", "2"]
    assert main([*words, "--video", str(tmp_path / "clips")]) == 0
    *_, first, second = capsys.readouterr().out.splitlines()
    assert [first, second] == sorted(map(str, (tmp_path / "clips").iterdir()))


def test_a_line_now_and_then_where_there_is_no_terminal(
    run: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(counted_view, "_SECONDS", 0.0)
    assert main(["eval", run, "--episodes", "3"]) == 0
    assert "3 of 3 episodes, " in capsys.readouterr().err.splitlines()[-1]
    assert main(["eval", run, "--episodes", "3", "--json"]) == 0
    assert capsys.readouterr().err.startswith("runs the code in ")


@pytest.mark.parametrize(
    ("words", "told", "status"),
    [
        (
            "discret",
            "there is no run 'discret' here, by its folder or by its name in runs: did you",
            2,
        ),
        ("discrete --episodes 0", "episodes must be at least 1, not 0", 2),
        ("discrete --env CartPole-v1", "CartPole-v1 shows float32[4] as observations", 2),
        ("discrete --env CartPol-v1", "did you mean CartPole-v1", 2),
        ("discrete --env toys_to_load:endless --deadline 0.1", "DeadlineExceeded: gave up", 1),
    ],
)
def test_what_is_refused(
    words: str, told: str, status: int, run: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["eval", *words.split()]) == status
    out, err = capsys.readouterr()
    assert out == ""
    assert told in err


def test_flags_are_recognised(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["eval", "x", "--episode", "3", "--greddy"])
    said = capsys.readouterr().err
    assert "there is no flag --episode: did you mean --episodes?" in said
    assert "did you mean --greedy?" in said


@pytest.mark.long
@pytest.mark.processes
def test_it_is_stopped_at_once(run: str, tmp_path: Path) -> None:
    words = ("eval", run, "--env", "toys_to_load:endless", "--episodes", "3", "--trust")
    process = Artos(tmp_path, words)
    try:
        process.until(lambda: "episodes, " in process.said)
        process.signal(signal.SIGINT)
        ended = process.wait()
    finally:
        process.end()
    assert (ended.status, ended.out) == (130, "")
    assert ended.err.splitlines()[-1] == "artos: stopped at once"
    assert "Traceback" not in ended.err
