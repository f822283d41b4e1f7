"""`artos branch`: what is asked of the run, and how it is told what came of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from artos.errors import NotBranched
from artos.protocol.control import BranchRun, RunBranched
from deploy.cli.__main__ import main
from deploy.local import branching

CHILD = {"return": 3.0, "steps": 3, "ended": True, "fault": "", "version": 9}


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[BranchRun]:
    """What the live run `runs/live` was asked for; it answers at once."""
    monkeypatch.delenv("ARTOS_HEAD", raising=False)
    monkeypatch.chdir(tmp_path)
    for name in ("live", "other"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "config.json").write_text("{}")
    orders: list[BranchRun] = []

    def answer(run: Path, order: BranchRun) -> RunBranched:
        orders.append(order)
        found: dict[str, Any] = {
            "actor": 0, "row": 64, "version": 15, "by": "fork", "fault": "",
            "so_far": {"return": 5.0, "steps": 5}, "children": [CHILD | {"weights": order.weights}],
        }  # fmt: skip
        (run / "1.json").write_text(json.dumps(found))
        return RunBranched("1.json")

    monkeypatch.setattr(branching.control, "branch", answer)
    return orders


@pytest.mark.parametrize(
    ("flags", "run", "best"),
    [
        ((), "", False),
        (("--best",), "live", True),
        (("--with", "other"), "other", False),
        (("--with", "runs/other", "--best"), "other", True),
    ],
)
def test_whose_weights_act(
    flags: tuple[str, ...], run: str, best: bool, asked: list[BranchRun], tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    weights = str(tmp_path.resolve() / "runs" / run) if run else ""
    assert main(["branch", "live", "--times", "1", *flags]) == 0
    assert [(order.weights, order.best) for order in asked] == [(weights, best)]
    said = capsys.readouterr().out
    assert f"1 of 1 continuations, by fork{f', with version 9 of {run}' * bool(run)}\n" in said


def test_a_run_that_is_not_there_is_refused(
    asked: list[BranchRun], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["branch", "live", "--times", "1", "--with", "othre"]) == 2
    assert "othre" in capsys.readouterr().err
    assert main(["branch", "live", "--times", "0", "--until", "0"]) == 2
    found = capsys.readouterr().err
    assert "times=0" in found
    assert "until=0" in found, "both at once"
    assert main(["branch", "live@head:1", "--times", "1"]) == 2
    assert "on the machine of the head" in capsys.readouterr().err
    assert main(["branch", "live", "--times", "1", "--until", "²"]) == 2
    assert "give a number of steps" in capsys.readouterr().err
    assert asked == []


def test_how_long_they_have_is_part_of_the_order(asked: list[BranchRun]) -> None:
    assert main(["branch", "live", "--times", "1", "--deadline", "4"]) == 0
    assert [order.seconds for order in asked] == [4.0]


def test_what_a_continuation_raised_is_shown_as_text(
    asked: list[BranchRun], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CHILD, "fault", "Traceback\nValueError: \x1b[31mred\n")
    monkeypatch.setitem(CHILD, "return", None)
    assert main(["branch", "live", "--times", "1"]) == 1
    said = capsys.readouterr().out
    assert "ValueError: " in said
    assert "\x1b" not in said
    assert "return  mean" not in said


def test_nobody_waits_for_a_process_that_has_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one goes on with the run, and knows nothing of what the last one was asked for."""
    places = iter(("/memory/1", "/memory/1", "/memory/2"))
    monkeypatch.setattr(branching, "is_live", lambda run: True)
    monkeypatch.setattr(branching.control, "branch", lambda run, order: RunBranched("1.json"))
    monkeypatch.setattr(branching.control, "board_told", lambda run: next(places))
    with pytest.raises(NotBranched, match="another one goes on: ask again"):
        branching.branch(tmp_path)
    assert next(places, None) is None
