"""Which CRIU is taken: asked for, built here, the system's; and what is said if there is none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from artos.errors import CriuUnavailable
from workers.checkpoint.criu import find


@pytest.fixture(autouse=True)
def _a_machine_without_criu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARTOS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("ARTOS_CRIU", raising=False)
    monkeypatch.setattr(find, "FEATURES", tmp_path / "features")


def criu(path: Path, version: str = "4.1.1") -> Path:
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\necho Version: {version}\n")
    path.chmod(0o755)
    return path


def unavailable() -> CriuUnavailable:
    with pytest.raises(CriuUnavailable) as caught:
        find.find_criu()
    return caught.value


def test_the_one_asked_for_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    criu(tmp_path / "cache/criu-4.1.1/bin/criu")
    own = criu(tmp_path / "own/criu", "4.3")
    monkeypatch.setenv("ARTOS_CRIU", str(own))
    assert find.find_criu() == own


def test_then_the_newest_built_here(tmp_path: Path) -> None:
    criu(tmp_path / "bin/criu", "5.0")
    criu(tmp_path / "cache/criu-4.9/bin/criu", "4.9")
    newest = criu(tmp_path / "cache/criu-4.10/bin/criu", "4.10")
    assert find.find_criu() == newest


def test_then_the_systems(tmp_path: Path) -> None:
    system = criu(tmp_path / "bin/criu", "4.1")
    assert find.find_criu() == system


def test_the_systems_is_passed_over_when_it_is_too_old(tmp_path: Path) -> None:
    criu(tmp_path / "bin/criu", "3.17.1")
    error = unavailable()
    assert error.reason == f"no CRIU from 4.1 on was found (only {tmp_path}/bin/criu (3.17.1))"
    assert error.fix == "artos setup criu"


def test_the_one_asked_for_is_never_replaced_by_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    criu(tmp_path / "cache/criu-4.1.1/bin/criu")
    monkeypatch.setenv("ARTOS_CRIU", str(tmp_path / "gone"))
    assert unavailable().reason == f"{tmp_path}/gone does not run"
    monkeypatch.setenv("ARTOS_CRIU", str(criu(tmp_path / "old/criu", "3.9")))
    assert unavailable().reason == f"{tmp_path}/old/criu is version 3.9, 4.1 is needed"


def test_what_the_set_up_left_is_repeated(tmp_path: Path) -> None:
    assert unavailable().reason == "no CRIU from 4.1 on was found (none)"
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache/criu-missing").write_text("no network\nplug it in\n")
    error = unavailable()
    assert (error.reason, error.fix) == ("no network", "plug it in")
    assert "no network; fix: plug it in" in str(error)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's CRIU has one")
def test_the_folder_of_the_feature_cache_is_there_and_ours(tmp_path: Path) -> None:
    criu(tmp_path / "bin/criu")
    find.find_criu()
    assert find.FEATURES.stat().st_mode & 0o777 == 0o700
    find.FEATURES.rmdir()
    find.FEATURES.symlink_to(tmp_path)
    error = unavailable()
    assert "it is a link or a file" in error.reason
    assert error.fix == f"rm -r {find.FEATURES}"
