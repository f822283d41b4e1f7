"""A seal shows that this account's ARTOS wrote a text itself."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from artos.system.seal import is_sealed, seal


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "artos"


def test_own_text() -> None:
    sealed = seal("text")
    assert is_sealed("text", sealed)
    assert not is_sealed("other text", sealed)
    assert not is_sealed("text", "")


def test_the_key_is_made_once_for_the_user_alone(state: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        assert len(set(threads.map(seal, ["text"] * 64))) == 1
    assert [path.name for path in state.iterdir()] == ["key"]
    assert (state / "key").stat().st_mode & 0o777 == 0o600


def test_another_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = seal("text")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
    assert not is_sealed("text", theirs)
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("damage", ["others_read", "short", "pipe"])
def test_a_key_that_is_none(damage: str, state: Path) -> None:
    sealed = seal("text")
    key = state / "key"
    if damage == "others_read":
        key.chmod(0o640)
    elif damage == "short":
        key.write_bytes(b"")
    else:
        key.unlink()
        os.mkfifo(key)
    assert not is_sealed("text", sealed)
    assert seal("text") == ""


def test_nowhere_to_keep_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", os.devnull)
    assert seal("text") == ""
