"""Images that are damaged, gone, or find no room: nobody waits for ever, no row is lost."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from elastic import needs_criu
from elastic_runs import ElasticRun, assert_exact, assert_nothing_left, hold_with_images
from real_runs import journal

pytestmark = [pytest.mark.processes, needs_criu, pytest.mark.long]

Start = Callable[..., ElasticRun]


def truncate(image: Path) -> str:
    pages = max(image.glob("pages-*.img"), key=lambda file: file.stat().st_size)
    with pages.open("r+b") as file:
        file.truncate(4096)
    return "has 4096 bytes instead of"


def lose_a_file(image: Path) -> str:
    file = next(image.glob("core-*.img"))
    file.unlink()
    return f"{file.name} is missing"


def change_a_byte(image: Path) -> str:
    (file,) = image.glob("files.img")
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    return f"{file.name} was changed"


def remove(image: Path) -> str:
    shutil.rmtree(image)
    return "its facts cannot be read"


def test_images_that_came_to_harm(start: Start, home: Path) -> None:
    harms, steps = (truncate, lose_a_file, change_a_byte, remove), 5 * 16 * 6
    run = start(
        "counted.py:workload", "--actors", 5, "--total-steps", steps, park="checkpoint",
        start="clone",
    )  # fmt: skip
    run.until(lambda: run.updates)
    images = hold_with_images(run, 5)
    words = [harm(image) for harm, image in zip(harms, images, strict=False)]
    (home / "held").unlink()
    found = run.done()
    for actor, why in enumerate(words):
        (line,) = [x for x in run.said.splitlines() if f"actor {actor} is started again" in x]
        assert why in line
    lives = assert_exact(run.folder, steps)
    assert [len(lives[actor]) for actor in range(5)] == [2, 2, 2, 2, 1]
    assert found["starts"]["clone"]["count"] == 9
    assert found["restarts"] == 4
    anew = {line["ready"] for line in journal(run.folder) if line.get("anew")}
    assert anew == {"actor 0", "actor 1", "actor 2", "actor 3"}
    assert_nothing_left(home)


def test_a_process_id_that_is_taken(start: Start, home: Path) -> None:
    """Actors that were not cloned have no PID namespace of their own: they need their number."""
    (home / "held").touch()
    run = start("counted.py:workload", "--total-steps", 128, park="checkpoint", start="cold")
    run.until(lambda: len(run.actors()) == 2)
    # Whoever starts a process meanwhile gets the next number: that is to be nobody's.
    pid, actor = max((processes[0].pid, actor) for actor, processes in run.actors().items())
    hold_with_images(run, 2)
    with taken(pid):
        (home / "held").unlink()
        found = run.done()
    assert f"actor {actor} is started again" in run.said
    assert "the process id it had is taken" in run.said
    assert found["starts"]["cold"]["count"] == 3
    lives = assert_exact(run.folder, 128)
    assert {who: len(each) for who, each in lives.items()} == {actor: 2, 1 - actor: 1}
    assert_nothing_left(home)


@contextmanager
def taken(pid: int) -> Iterator[None]:
    """Some process that has this number."""
    newest = Path("/proc/sys/kernel/ns_last_pid")
    for _ in range(100):
        before = newest.read_text()
        newest.write_text(str(pid - 1))
        with subprocess.Popen(["sleep", "100"]) as process:
            try:
                newest.write_text(before)  # the numbers after it belong to other actors
                if process.pid == pid:
                    yield
                    return
            finally:
                process.kill()
        time.sleep(0.1)  # until whoever has it may have ended
    pytest.fail(f"somebody else always got {pid}")


def test_a_budget_that_is_too_small(start: Start, home: Path) -> None:
    """Not even the template finds room."""
    run = start(
        "counted.py:workload", "--total-steps", 256, park="checkpoint", image_mb=2, start="clone"
    )
    found = run.done()
    assert "actors are started by fork instead" in run.said
    for actor in (0, 1):
        assert f"actor {actor} waits in memory from now on" in run.said
    assert "2.0 MB of 2.0 MB are left" in run.said
    assert "give images more room (--set image_mb=N" in run.said
    assert found["starts"]["fork"]["count"] == 2
    assert "restore" not in found["starts"]
    assert [len(lives) for lives in assert_exact(run.folder, 256).values()] == [1, 1]
    assert_nothing_left(home)


@pytest.fixture
def small(home: Path) -> Iterator[Path]:
    """A filesystem of 64 MB."""
    folder = home / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(folder)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("no filesystem can be mounted here")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_filesystem_that_gets_full_in_mid_dump(start: Start, home: Path, small: Path) -> None:
    steps, filler = 2048, small / "filler"
    run = start(
        "counted.py:workload", "--total-steps", steps, park="checkpoint", images=small,
        image_mb=1000,
    )  # fmt: skip
    run.until(lambda: run.updates)  # after the template's dump

    def fill_below_a_dump() -> bool:
        if any(small.glob("images-*/*.partial")):
            fill(filler)
        else:
            filler.unlink(missing_ok=True)  # too late: that dump was over
        return "filesystem of the images is full" in run.said

    run.each_moment(fill_below_a_dump)
    filler.unlink(missing_ok=True)
    assert "waits in memory for now" in run.said
    run.done()
    lives = assert_exact(run.folder, steps).values()
    assert [len(life) for life in lives] == [1, 1], run.said
    assert_nothing_left(home)
    assert not list(small.iterdir())


def fill(file: Path) -> None:
    """Take all the room there is."""
    with file.open("ab", buffering=0) as rest:
        try:
            while True:
                rest.write(bytes(1 << 16))
        except OSError:
            pass
