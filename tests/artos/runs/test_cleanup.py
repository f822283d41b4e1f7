"""What killed runs leave behind is found and removed, and nothing of a live run is."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from artos.buffer.shm_folder import ShmFolder, reap_orphans
from artos.errors import Refused
from artos.runs.cleanup import clean, image_folder, remove_images, remove_unlinked_images
from deploy.cli.__main__ import main
from head.records.run_folder import RunFolder

WHERE = ["disk", "tmpfs", "elsewhere"]

OWNER = """
import sys
from pathlib import Path
from artos.buffer.shm_folder import ShmFolder
from artos.runs.cleanup import image_folder
from head.records.run_folder import RunFolder
run, where = Path(sys.argv[1]), sys.argv[2]
run_folder, memory = RunFolder.create(run, {}), ShmFolder.create(run.name)
images = image_folder(memory.path, where, run)
(images / "actor-0").mkdir()
(images / "actor-0" / "pages-1.img").write_bytes(bytes(4096))
print(memory.path, images, flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "shm"
    folder.mkdir()
    monkeypatch.setenv("ARTOS_SHM", str(folder))
    return folder


@contextmanager
def owner(run: Path, where: str) -> Iterator[tuple[subprocess.Popen[str], Path, Path]]:
    """A supervisor with images in ``where``; its shared memory and where they are."""
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(run), where],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        shm, images = map(Path, process.stdout.readline().split())
        os.utime(shm, (1, 1))  # one that is quite new may just be starting
        yield process, shm, images
    finally:
        process.kill()
        process.communicate()


def place(where: str, folder: Path) -> str:
    return str(folder / where) if where == "elsewhere" else where


@pytest.mark.processes
@pytest.mark.parametrize("where", WHERE)
def test_images_of_a_killed_run_go_with_its_memory_and_those_of_a_live_one_stay(
    where: str, tmp_path: Path, memory: Path
) -> None:
    there = place(where, tmp_path)
    with ExitStack() as stack:
        dead, dead_memory, lost = stack.enter_context(owner(tmp_path / "dead", there))
        _, live_memory, kept = stack.enter_context(owner(tmp_path / "live", there))
        (kept.parent / "of the user's").touch()
        assert clean() == []
        dead.kill()
        dead.wait()
        assert set(clean()) == ({dead_memory} if where == "tmpfs" else {dead_memory, lost})
        assert list(memory.iterdir()) == [live_memory]
        assert not lost.exists()
        assert (kept / "actor-0" / "pages-1.img").exists()
        assert (kept.parent / "of the user's").exists()


@pytest.mark.processes
def test_the_next_start_of_any_run_takes_them_along(tmp_path: Path) -> None:
    with owner(tmp_path / "run", "disk") as (process, _, images):
        process.kill()
        process.wait()
        ShmFolder.create("another").remove()
        assert not images.exists()


def test_a_run_that_ends_takes_its_images_along(tmp_path: Path) -> None:
    memory = ShmFolder.create("run")
    images = image_folder(memory.path, str(tmp_path / "elsewhere"), tmp_path)
    memory.remove()
    assert not images.exists()
    assert images.parent.exists()


def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    memory = ShmFolder.create("run")
    with pytest.raises(Refused, match=r"file: Not a directory; set images="):
        image_folder(memory.path, str(tmp_path / "file"), tmp_path)
    memory.remove()


@pytest.mark.processes
def test_without_the_memory_that_leads_there_a_run_must_be_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As after a restart of the machine."""
    run = tmp_path / "run"
    with owner(run, "disk") as (process, shm, images):
        assert main(["clean", str(run), str(tmp_path / "none")]) == 2
        said = capsys.readouterr().err
        assert f"{run} is used by a live run" in said
        assert f"there is no run in {tmp_path / 'none'}" in said
        process.kill()
        process.wait()
        shutil.rmtree(shm)
        assert clean() == []
        assert images.exists()
        assert main(["clean", str(run), "--json"]) == 0
        assert json.loads(capsys.readouterr().out) == {"removed": [str(images)]}
        assert not images.exists()
        assert (run / "config.json").exists()


def test_only_images_are_removed_from_a_run(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path / "run", {}) as run:
        (run.path / "images-0").mkdir()
        (run.path / "images-moving").mkdir()
        (run.path / "images-holiday").mkdir()
        before = {path.name for path in run.path.iterdir()}
        with pytest.raises(Refused, match="live"):
            clean([run.path])
        ours = {"images-0", "images-moving"}
        assert {path.name for path in remove_images(run.path)} == ours
        assert {path.name for path in run.path.iterdir()} == before - ours


def test_a_link_of_somebody_elses_leads_nowhere(tmp_path: Path, memory: Path) -> None:
    """Shared memory is for everybody: only folders of ours are followed."""
    if os.getuid() != 0:
        pytest.skip("only root can make somebody else's link")
    mine, kept = tmp_path / "mine", tmp_path / "kept"
    mine.mkdir()
    kept.mkdir()
    (mine / "images").symlink_to(kept)
    os.utime(mine, (1, 1))
    trap = memory / "artos.trap.1"
    trap.symlink_to(mine)
    os.lchown(trap, 65534, 65534)
    assert reap_orphans() == []
    assert kept.exists()


def test_images_to_which_no_memory_leads_are_removed(tmp_path: Path, memory: Path) -> None:
    live, lost = memory / "artos.live.1", memory / "artos.lost.2"
    for each in (live, lost):
        each.mkdir()
    kept, gone = (image_folder(each, "disk", tmp_path) for each in (live, lost))
    shutil.rmtree(lost)  # as when the machine was started anew
    assert remove_unlinked_images(tmp_path) == [gone]
    assert not gone.exists()
    assert kept.exists()
    assert remove_unlinked_images(tmp_path) == []
