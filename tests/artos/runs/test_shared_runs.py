"""A worker has the head's folder of runs if it finds there what the head has written."""

from __future__ import annotations

from pathlib import Path

import pytest

from artos.errors import Refused
from artos.runs import shared_runs
from artos.runs.shared_runs import read_token, write_token


def test_what_a_head_writes_is_found_and_stays(tmp_path: Path) -> None:
    (tmp_path / ".head").mkdir()
    token = write_token(tmp_path)
    assert read_token(tmp_path, "127.0.0.1") == token == write_token(tmp_path)
    assert (tmp_path / ".head" / "shared").stat().st_mode & 0o077 == 0
    (tmp_path / ".head" / "shared").write_text("damaged")
    with pytest.raises(Refused, match="damaged"):
        read_token(tmp_path, "127.0.0.1")
    assert write_token(tmp_path) != token


def test_another_folder_of_that_name_is_not_the_heads(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="No such file"):
        read_token(tmp_path, "10.0.0.1")


def test_a_machine_that_others_cannot_reach_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".head").mkdir()
    token = write_token(tmp_path)
    monkeypatch.setattr(shared_runs, "boot_id", lambda: "another")
    assert read_token(tmp_path, "10.0.0.1") == token
    for host in ("127.0.0.1", "[::1]"):
        with pytest.raises(Refused, match="tunnel"):
            read_token(tmp_path, host)
    assert write_token(tmp_path) == token, "the head itself may go to another machine"
