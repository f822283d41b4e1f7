"""``artos submit --wait``: what Ctrl-C does to the run, and to who waits for it."""

from __future__ import annotations

from typing import Any

import pytest

from artos.protocol.views import RunView
from artos.runs.exit_status import ExitStatus
from artos.system.closing import Closing
from deploy.cli import cluster
from deploy.cli.__main__ import main


class Head(Closing):
    """Answers a request, or has Ctrl-C pressed meanwhile, as ``answers`` has it."""

    def __init__(self, *answers: str) -> None:
        self.answers, self.stopped = [*answers], 0

    def submit(self, *_: Any) -> dict[str, Any]:
        return {"run": "r1", "folder": "/there/r1"}

    def status(self, run: str) -> RunView:
        return self._answer(RunView(name=run, state="done", outcome="interrupted"))

    def stop(self, run: str) -> RunView:
        self.stopped += 1
        return self._answer(RunView(name=run, state="stopping"))

    def _answer(self, view: RunView) -> RunView:
        if self.answers.pop(0) == "Ctrl-C":
            raise KeyboardInterrupt
        return view

    def close(self) -> None:
        """Do nothing: no resources are held."""


def test_ctrl_c_stops_the_run_and_is_told_its_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    head = Head("Ctrl-C", "stop", "status")
    monkeypatch.setattr(cluster, "head_of", lambda options: head)
    assert main(["submit", "ppo", "--wait"]) == ExitStatus.INTERRUPTED
    assert head.stopped == 1
    said = capsys.readouterr()
    assert "r1: interrupted" in said.out
    assert "Ctrl-C again: leave" in said.err


@pytest.mark.parametrize("answers", [("Ctrl-C", "stop", "Ctrl-C"), ("Ctrl-C", "Ctrl-C")])
def test_a_second_ctrl_c_leaves_the_run(
    answers: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    head = Head(*answers)
    monkeypatch.setattr(cluster, "head_of", lambda options: head)
    assert main(["submit", "ppo", "--wait"]) == ExitStatus.INTERRUPTED
    assert head.stopped == 1
    assert capsys.readouterr().err.splitlines()[1:] == [
        "artos: left r1, which may go on: see `artos status r1`"
    ]
