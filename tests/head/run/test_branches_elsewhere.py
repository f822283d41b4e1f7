"""Actors on the nodes of a cluster are not branched, and whoever asks for it is told so."""

from __future__ import annotations

from pathlib import Path

import pytest

from artos.protocol.control import BranchRun, RunBranched
from head.run.cluster import ClusterRun


@pytest.fixture(autouse=True)
def without_a_coordinator(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no need of a cluster to say no."""
    monkeypatch.setattr(ClusterRun, "_coordinator", None, raising=False)


def test_a_run_on_a_cluster_refuses_in_words() -> None:
    answer = object.__new__(ClusterRun)._change(BranchRun("pong", 0, 3))
    assert isinstance(answer, RunBranched)
    assert not answer.file
    assert "on the nodes of a cluster" in answer.fault
    assert "artos run" in answer.fault, "it says what to do"


def test_a_folder_that_cannot_be_written_is_told_and_ends_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "branches"
    file.touch()
    monkeypatch.setattr(ClusterRun, "_branch", lambda *_: file.mkdir())
    answer = object.__new__(ClusterRun)._change(BranchRun("pong", 0, 3))
    assert isinstance(answer, RunBranched)
    assert answer.fault == f"{file}: File exists"
