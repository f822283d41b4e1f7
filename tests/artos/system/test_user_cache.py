"""Where a user's cache is, also where the user has no home."""

from __future__ import annotations

import pwd
from pathlib import Path

import pytest

from artos.errors import Refused
from artos.system.user_cache import user_cache
from workers.checkpoint.criu.find import cache_folder
from workers.daemon.state import WorkerState


@pytest.fixture(autouse=True)
def _no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container whose user is a mere number."""

    def unknown(user: int) -> None:
        raise KeyError(f"getpwuid(): uid not found: {user}")

    for name in ("HOME", "XDG_CACHE_HOME", "ARTOS_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)


def test_who_has_no_home_has_no_cache() -> None:
    assert not cache_folder().exists()
    with pytest.raises(Refused, match="set XDG_CACHE_HOME to a folder of yours"):
        WorkerState(user_cache() / "nodes", "w1", "tcp://127.0.0.1:7700")


def test_a_folder_that_was_named_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with WorkerState(user_cache() / "nodes", "w1", "tcp://127.0.0.1:7700") as home:
        assert home.folder.is_relative_to(tmp_path / "artos" / "nodes")
    assert cache_folder() == tmp_path / "artos"
