"""Where a run comes from: the commit of the user's folder, and versions that are others by now."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from head.records.provenance import commit_of, differences


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    done = subprocess.run(
        ["git", "-C", folder, *identity, *arguments], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def test_the_commit_of_a_folder_is_known_and_whether_it_was_changed(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    assert commit_of(tmp_path) is None, "there is no commit yet"
    (inner := tmp_path / "inner").mkdir()
    (inner / "algo.py").write_text("1")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "one")
    commit = git(tmp_path, "rev-parse", "HEAD")
    assert commit_of(inner) == {"commit": commit, "changed": False}
    (tmp_path / "elsewhere.py").write_text("2")
    assert commit_of(inner) == {"commit": commit, "changed": False}
    (inner / "algo.py").write_text("2")
    assert commit_of(inner) == {"commit": commit, "changed": True}


def test_files_of_any_name_are_changes(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "config", "core.quotePath", "false")
    git(tmp_path, "commit", "--quiet", "--allow-empty", "--message", "one")
    (tmp_path / os.fsdecode(b"caf\xe9.txt")).touch()
    found = commit_of(tmp_path)
    assert found is not None
    assert found["changed"]


def test_without_git_or_repository_nothing_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert commit_of(tmp_path) is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert commit_of(tmp_path) is None


def test_only_what_is_another_version_is_told() -> None:
    before = {"torch": "2.8", "numpy": "2.0", "old": "1"}
    now = {"torch": "2.9", "numpy": "2.0", "new": "1"}
    assert [*differences(before, now)] == ["torch is 2.9, the run began with 2.8"]
