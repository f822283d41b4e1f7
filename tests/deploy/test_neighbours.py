"""What a second user of the machine puts where we are about to write or delete changes nothing."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from artos.buffer.shm_folder import ShmFolder, reap_orphans
from artos.errors import CriuUnavailable, NotOurs, Refused
from artos.runs.cleanup import image_folder, remove_images
from artos.system import private_folder
from artos.system.append_file import AppendFile
from artos.system.archives import Archives
from artos.system.durable import write_durably
from head.daemon.state import HeadState
from head.records.run_folder import RunFolder
from workers.checkpoint.criu import find
from workers.checkpoint.criu.operation import Worker
from workers.checkpoint.images import ImageStore
from workers.checkpoint.proc_folder import remove_left
from workers.daemon.state import WorkerState

NOBODY = 65534

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users at once")


def as_neighbour(*command: str | Path) -> None:
    """Run a command as a user who may do nothing but what everybody may."""
    subprocess.run(command, check=True, user=NOBODY, group=NOBODY, extra_groups=[], cwd="/")


def link_of_the_neighbours(path: Path, target: Path) -> Path:
    as_neighbour("ln", "-s", target, path)
    return path


def folder_of_the_neighbours(path: Path) -> Path:
    as_neighbour("mkdir", "-m", "777", path)
    as_neighbour("touch", path / "theirs")
    return path


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder like /tmp: everybody may write to it, and rename only what is his."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    folder.chmod(0o1777)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    """A folder of ours that must live."""
    folder = tmp_path / "precious"
    folder.mkdir()
    (folder / "thesis").touch()
    return folder


@pytest.fixture(autouse=True)
def shm(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ARTOS_SHM", str(place))
    return place


# -- images ----------------------------------------------------------------------------------------


def test_a_link_where_images_might_be_made_is_not_followed(place: Path, precious: Path) -> None:
    memory = ShmFolder.create("run")
    name = memory.path.name.rpartition(".")[2]  # what everybody can read in /dev/shm
    link_of_the_neighbours(place / f"images-{name}", precious)
    folder = image_folder(memory.path, str(place), place)
    assert private_folder.is_ours(folder)
    memory.remove()
    assert not folder.exists()
    assert (precious / "thesis").exists()


def test_a_link_that_is_there_when_images_are_removed_is_not_followed(
    place: Path, precious: Path
) -> None:
    memory = ShmFolder.create("run")
    link_of_the_neighbours(place / "images-1", precious)
    (memory.path / "images").symlink_to(place / "images-1")  # as if that name had been ours
    assert remove_images(place) == []
    assert reap_orphans() == []
    memory.remove()
    assert (precious / "thesis").exists()


def test_somebody_elses_images_are_not_removed(place: Path) -> None:
    theirs = folder_of_the_neighbours(place / "images-1")
    assert remove_images(place) == []
    assert (theirs / "theirs").exists()


def test_images_are_kept_in_no_folder_of_the_neighbours(place: Path) -> None:
    theirs = folder_of_the_neighbours(place / "images")
    memory = ShmFolder.create("run")
    for where in (theirs, theirs / "deeper"):
        with pytest.raises(Refused, match=f"belongs to user {NOBODY}.*set images="):
            image_folder(memory.path, str(where), place)
    memory.remove()
    assert [path.name for path in theirs.iterdir()] == ["theirs"]


def test_images_are_kept_in_no_folder_where_they_can_be_renamed(place: Path) -> None:
    loose = place / "loose"
    loose.mkdir()
    loose.chmod(0o777)
    memory = ShmFolder.create("run")
    with pytest.raises(Refused, match=r"everyone may rename .* \(chmod \+t"):
        image_folder(memory.path, str(loose), place)
    memory.remove()
    assert list(loose.iterdir()) == []


def test_a_store_is_not_opened_in_a_folder_of_the_neighbours(place: Path) -> None:
    theirs = folder_of_the_neighbours(place / "store")
    with pytest.raises(NotOurs):
        ImageStore(theirs, 1 << 20)
    assert (theirs / "theirs").exists()


def test_nothing_is_restored_from_a_folder_of_the_neighbours(place: Path, tmp_path: Path) -> None:
    theirs = folder_of_the_neighbours(place / "actor-0")
    mine = tmp_path / "actor-0"
    mine.mkdir(mode=0o700)
    for folder in (theirs, link_of_the_neighbours(place / "link", mine)):
        with pytest.raises(NotOurs):
            Worker(["true"], lambda _: b"", folder, tmp_path / "log")


# -- what is removed -------------------------------------------------------------------------------


def test_links_in_a_folder_of_ours_are_removed_and_not_followed(
    place: Path, precious: Path
) -> None:
    ours = private_folder.make(place, "ours-")
    (ours / "deep" / "deeper").mkdir(parents=True)
    (ours / "deep" / "deeper" / "out").symlink_to(precious)
    (ours / "out").symlink_to(precious)
    assert private_folder.remove(ours)
    assert not ours.exists()
    assert not private_folder.remove(ours)
    assert (precious / "thesis").exists()


def test_a_mount_behind_a_link_of_the_neighbours_stays(place: Path, tmp_path: Path) -> None:
    """Where actors work CRIU may leave a mount, which is taken away from there."""
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", mounted], check=True)
    try:
        link_of_the_neighbours(place / "proc.crtools", mounted)
        assert not remove_left(place, moment=0.0)
        assert mounted.is_mount()
    finally:
        subprocess.run(["umount", mounted], check=False)


# -- where we live ---------------------------------------------------------------------------------


def long_runs(folder: Path) -> Path:
    """A folder of runs whose path is too long for that of a socket."""
    runs = folder / ("a-long-name" * 12)
    runs.mkdir()
    return runs


def test_the_sockets_of_a_head_lie_where_nobody_could_know(place: Path, tmp_path: Path) -> None:
    runs = long_runs(tmp_path)
    with HeadState(runs) as home:
        sockets = Path(home.socket.removeprefix("ipc://")).parent
        assert sockets.parent == place
        assert stat.S_IMODE(sockets.stat().st_mode) == 0o700
    assert list(place.iterdir()) == []
    with HeadState(runs) as home:
        assert str(sockets) not in home.socket


def test_where_no_socket_can_be_a_head_is_refused_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = long_runs(tmp_path)
    monkeypatch.setenv("ARTOS_SHM", str(runs))
    for _ in range(2):
        with pytest.raises(Refused, match=r"both too long for a socket: shorten the latter by \d"):
            HeadState(runs)
    assert {path.name for path in (runs / ".head").iterdir()} == {"lock"}


def test_runs_that_live_on_find_the_next_head_at_the_same_socket(
    place: Path, tmp_path: Path
) -> None:
    runs = long_runs(tmp_path)
    with HeadState(runs) as first:
        first.needed = True
    with HeadState(runs) as second:
        assert second.socket == first.socket
        second.needed = False
    assert list(place.iterdir()) == []


def test_a_head_does_not_meet_its_runs_where_a_neighbour_is_by_now(
    place: Path, tmp_path: Path
) -> None:
    runs = long_runs(tmp_path)
    with HeadState(runs) as first:
        first.needed = True
    sockets = Path(first.socket.removeprefix("ipc://")).parent
    shutil.rmtree(sockets)  # as when the machine was started anew
    folder_of_the_neighbours(sockets)
    with HeadState(runs) as second:
        assert second.socket != first.socket
    assert list(place.iterdir()) == [sockets]


def test_nothing_is_kept_in_folders_of_the_neighbours(place: Path) -> None:
    theirs = folder_of_the_neighbours(place / "theirs")
    with pytest.raises(Refused, match=f"--runs .*belongs to user {NOBODY}"):
        HeadState(theirs)
    with pytest.raises(Refused, match=f"belongs to user {NOBODY}.*XDG_CACHE_HOME"):
        WorkerState(theirs, "w1", "tcp://head:7700")
    with pytest.raises(NotOurs):
        Archives(theirs / "code").put(
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", b""
        )
    for run in (theirs, theirs / "run"):
        with pytest.raises(Refused, match=f"run folder .*belongs to user {NOBODY}.*--run-dir"):
            RunFolder.create(run, {})
    assert [path.name for path in theirs.iterdir()] == ["theirs"]


def test_a_run_is_not_written_through_a_link_of_the_neighbours(place: Path, precious: Path) -> None:
    link_of_the_neighbours(place / "runs", precious)
    with pytest.raises(Refused, match=f"belongs to user {NOBODY}"):
        RunFolder.create(place / "runs" / "run-1", {})
    assert [path.name for path in precious.iterdir()] == ["thesis"]


def test_a_run_may_lie_where_everybody_writes(place: Path) -> None:
    with RunFolder.create(place / "runs" / "run-1", {}) as run:
        assert run.config_file.exists()


@pytest.mark.parametrize("kind", ["folder", "link", "open to everybody"])
def test_criu_believes_nothing_of_the_neighbours(
    kind: str, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    features = place / "artos-criu"
    monkeypatch.setattr(find, "FEATURES", features)
    monkeypatch.setenv("ARTOS_CRIU", str(tmp_path / "criu"))
    (tmp_path / "criu").write_text("#!/bin/sh\necho Version: 4.1.1\n")
    (tmp_path / "criu").chmod(0o755)
    if kind == "folder":
        folder_of_the_neighbours(features)
    elif kind == "link":
        (tmp_path / "target").mkdir()
        link_of_the_neighbours(features, tmp_path / "target")
    else:
        features.mkdir()
        features.chmod(0o777)
    with pytest.raises(CriuUnavailable, match=r"not used.*rm -r"):
        find.find_criu()


# -- named places ----------------------------------------------------------------------------------


def test_shared_memory_is_in_no_folder_of_the_neighbours(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = folder_of_the_neighbours(place / "shm")
    for where in (theirs, theirs / "deeper"):
        where.mkdir(exist_ok=True)
        monkeypatch.setenv("ARTOS_SHM", str(where))
        for use in (lambda: ShmFolder.create("run"), reap_orphans):
            with pytest.raises(Refused, match=f"belongs to user {NOBODY}.*have ARTOS_SHM name"):
                use()


def test_shared_memory_is_not_where_everybody_may_rename(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o777)
    monkeypatch.setenv("ARTOS_SHM", str(tmp_path))
    with pytest.raises(Refused, match="everyone may rename what lies in"):
        ShmFolder.create("run")


def test_no_program_is_run_that_the_neighbours_put_into_a_cache(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = folder_of_the_neighbours(place / "cache")
    monkeypatch.delenv("ARTOS_CRIU", raising=False)
    monkeypatch.setenv("ARTOS_CACHE", str(theirs))
    with pytest.raises(CriuUnavailable, match=f"belongs to user {NOBODY}.*have ARTOS_CACHE name"):
        find.find_criu()


def test_no_record_is_written_through_a_link(tmp_path: Path, precious: Path) -> None:
    """Where all can write but no kernel setting (protected_symlinks) helps."""
    (tmp_path / f".config.json.{os.getpid()}.tmp").symlink_to(precious / "thesis")
    write_durably(tmp_path / "config.json", b"ours")
    assert (tmp_path / "config.json").read_bytes() == b"ours"
    assert not (tmp_path / "config.json").is_symlink()
    (tmp_path / "journal.jsonl").symlink_to(precious / "thesis")
    with pytest.raises(OSError, match="symbolic links"):
        AppendFile(tmp_path / "journal.jsonl")
    assert (precious / "thesis").read_bytes() == b""


def test_images_are_trusted_in_no_folder_to_which_a_group_may_write(place: Path) -> None:
    folder = place / "images"
    folder.mkdir()
    folder.chmod(0o770)
    os.chown(folder, 0, NOBODY)
    with pytest.raises(NotOurs, match="drwxrwx---"):
        ImageStore(folder, 1 << 20)
