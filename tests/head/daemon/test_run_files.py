"""Which files of a run are sent, and pieces of them: never what lies elsewhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from artos.errors import Refused
from head.daemon import run_files
from head.daemon.run_files import MOST_OF_A_FILE, listed, piece


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "runs" / "r1"
    (folder / "logs" / "w1").mkdir(parents=True)
    (folder / "progress.csv").write_text("steps\n1\n")
    (folder / "logs" / "w1" / "actor-0.log").write_text("hello")
    (tmp_path / "secret").write_text("key")
    return folder


def test_regular_files_are_listed_by_their_paths(run: Path) -> None:
    for name in ("run.lock", "live.json", ".config.json.draft"):
        (run / name).write_text("x")
    (run / "link").symlink_to(run.parent.parent / "secret")
    (run / "elsewhere").symlink_to("/etc")
    os.mkfifo(run / "fifo")
    found = listed(run)
    assert {*found} == {"progress.csv", "logs/w1/actor-0.log"}
    assert found["progress.csv"] == (8, (run / "progress.csv").stat().st_mtime_ns)


def test_a_run_without_a_folder_has_none_yet(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="run r2 has no files yet"):
        listed(tmp_path / "r2")


def test_a_folder_with_too_many_files_is_not_sent(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_files, "_MOST_FILES", 1)
    with pytest.raises(Refused, match="has more than 1 files"):
        listed(run)


def test_pieces_follow_each_other_to_the_end(run: Path) -> None:
    content = os.urandom(MOST_OF_A_FILE + 5)
    (run / "big").write_bytes(content)
    first = piece(run, "big", 0)
    rest = piece(run, "big", len(first.content))
    assert first.content + rest.content == content
    assert first.size == rest.size == len(content)
    assert piece(run, "big", len(content)).content == b""


@pytest.mark.parametrize(
    "name",
    ["", "..", "../r1/progress.csv", "/etc/passwd", "logs", "none", ".hidden", "link",
     "elsewhere/passwd", "logs/../../../secret", "fifo"],
)  # fmt: skip
def test_what_is_no_file_of_the_run_is_refused(run: Path, name: str) -> None:
    (run / ".hidden").write_text("x")
    (run / "link").symlink_to(run.parent.parent / "secret")
    (run / "elsewhere").symlink_to("/etc")
    os.mkfifo(run / "fifo")
    with pytest.raises(Refused):
        piece(run, name, 0)
