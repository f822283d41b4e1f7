"""A pool's folder holds nothing but a pool: what else lies there is neither used nor removed."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from artos.errors import FilesTooSmall, NotOurs
from artos.pool.faults import PoolDamaged
from artos.pool.folder import named_faults
from artos.pool.pool import Pool
from artos.pool.resources import Resource
from artos.pool.view import clean, read_pool
from artos.system import private_folder

DEVICE = Resource("cpu:a")


def content(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize("mode", [0o700, 0o755, 0o2770])
@pytest.mark.parametrize("name", ["thesis.tex", ".bashrc", "table.tex", "bell", "table.1"])
def test_a_folder_that_holds_something_else_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, name: str
) -> None:
    folder = tmp_path / "home"
    folder.mkdir()
    folder.chmod(mode)
    (folder / name).write_text("ten years of work")
    (folder / "sub").mkdir()
    monkeypatch.setenv("ARTOS_POOL", str(folder))
    for enter in (lambda: Pool.join([DEVICE]), read_pool, clean):
        with pytest.raises(NotOurs, match="holds what no pool has made") as caught:
            enter()
        assert "have ARTOS_POOL name a folder that is empty" in str(caught.value)
        assert "remove it" not in str(caught.value)
    assert content(folder) == {name: "ten years of work"}
    assert (folder / "sub").is_dir()


def test_what_comes_while_a_pool_is_there_stays(tmp_path: Path) -> None:
    folder = tmp_path / "pool"
    with Pool.join([DEVICE], folder=folder):
        (folder / "notes").write_text("mine")
        (folder / "sub").mkdir()
    assert content(folder) == {"notes": "mine"}
    assert (folder / "sub").is_dir()


@pytest.mark.parametrize("there", [False, True], ids=["made by us", "made by others"])
def test_a_folder_that_a_leaving_member_removes_as_we_enter_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    folder, removed = tmp_path / "pool", 0
    open_folder, mkdir = private_folder.open_folder, Path.mkdir

    def left(path: Path) -> None:
        nonlocal removed
        if path == folder and path.exists() and removed < 3:
            path.rmdir()
            removed += 1

    def leave_then_open(path: Path) -> int:
        left(path)
        return open_folder(path)

    def make_then_leave(path: Path, *arguments: Any, **options: Any) -> None:
        try:
            mkdir(path, *arguments, **options)
        except FileExistsError:
            left(path)
            raise

    monkeypatch.setattr(private_folder, "open_folder", leave_then_open)
    monkeypatch.setattr(Path, "mkdir", make_then_leave)
    if there:
        folder.mkdir()
    monkeypatch.setenv("ARTOS_POOL", str(folder))
    assert list(named_faults()) == []
    with Pool.join([DEVICE]):
        assert folder.exists()
    assert removed == 3
    assert not folder.exists()


def test_a_folder_that_was_there_stays(tmp_path: Path) -> None:
    for name, there in (("theirs", True), ("ours", False)):
        if there:
            (tmp_path / name).mkdir()
        with Pool.join([DEVICE], folder=tmp_path / name):
            pass
        assert (tmp_path / name).exists() == there


@pytest.mark.parametrize("place", ["/", "/usr", "relative", "/nowhere/at/all", "/dev/null"])
def test_places_for_no_pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ARTOS_POOL", place)
    (fault,) = named_faults()
    assert fault.startswith(f"ARTOS_POOL: {place} is not used, because")
    with pytest.raises(NotOurs):
        Pool.join([DEVICE])
    assert [*tmp_path.iterdir()] == []


def test_a_link_to_a_folder_is_no_pools(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(NotOurs, match="it is a link or a file"):
        Pool.join([DEVICE], folder=tmp_path / "link")


def test_a_file_that_is_called_like_a_table_is_not_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "figures"
    folder.mkdir()
    (folder / "table").write_text("of results")
    monkeypatch.setenv("ARTOS_POOL", str(folder))
    with pytest.raises(PoolDamaged, match="does not begin as a table does"):
        Pool.join([DEVICE])
    with pytest.raises(NotOurs, match="it is no table of a pool"):
        clean()
    assert content(folder) == {"table": "of results"}


def test_where_no_table_can_be_made_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.EFBIG, "File too large")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(FilesTooSmall, match="ulimit -f"):
        Pool.join([DEVICE], folder=tmp_path / "pool")
    assert [*tmp_path.iterdir()] == []
