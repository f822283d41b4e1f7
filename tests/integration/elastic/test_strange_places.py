"""Spaces and letters beyond ASCII in all paths of a run; a home and a TMPDIR of no use."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from disks import needs_mount, small_disk
from elastic import needs_criu
from elastic_runs import ElasticRun, assert_exact, assert_nothing_left
from real_runs import updates

from workers.checkpoint.criu.find import cache_folder

pytestmark = [pytest.mark.processes, needs_criu, pytest.mark.long]

Start = Callable[..., ElasticRun]
STEPS = 2 * 16 * 6


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A user's folder that needs quoting wherever it is named."""
    folder = tmp_path / "all möglich 'e \" $dinge;"
    folder.mkdir()
    shutil.copy(Path(__file__).with_name("counted.py"), folder)
    return folder


def test_paths_may_have_spaces_and_other_letters(start: Start, home: Path) -> None:
    images = home / "bilder 中"
    settings = {"park": "checkpoint", "images": images, "start": "clone"}
    code = home / "mein code"
    code.mkdir()
    (home / "counted.py").rename(code / "counted.py")
    run = start("mein code/counted.py:workload", "--total-steps", STEPS, **settings)
    found = run.done()
    assert_exact(run.folder, STEPS)
    assert found["restarts"] == 0
    assert found["starts"]["clone"]["count"] == 2
    assert found["starts"]["restore"]["count"] > 2
    assert "anew" not in run.said
    done = updates(run.folder)
    start("--resume", "run", "--total-steps", 2 * STEPS).done()
    assert updates(run.folder) == 2 * done
    assert list(images.iterdir()) == []
    assert_nothing_left(home)


@pytest.mark.usefixtures("drawing")
@needs_mount
def test_neither_a_home_nor_a_place_for_temporary_files_is_needed(start: Start, home: Path) -> None:
    """The home can be read, as it is where a service has it protected; TMPDIR is not there."""
    with small_disk(home / "home", "64k") as disk:
        remount = ["mount", "-o", "remount,ro", disk]
        subprocess.run(remount, check=True)
        run = start(
            "counted.py:workload", "--total-steps", STEPS, park="checkpoint", start="clone",
            environment={
                "HOME": str(disk), "TMPDIR": str(disk / "nothing"), "XDG_CACHE_HOME": "",
                "ARTOS_CACHE": str(cache_folder()),
            },
        )  # fmt: skip
        found = run.done()
    assert_exact(run.folder, STEPS)
    assert found["starts"]["clone"]["count"] == 2
    assert (run.folder / "curve.png").exists()
    assert_nothing_left(home)
