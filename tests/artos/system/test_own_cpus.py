"""Workers of one machine take different CPUs, and leave nothing."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from artos.system.own_cpus import OwnCpus

USABLE = (0, 1, 2, 5)


@pytest.fixture(autouse=True)
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ARTOS_SHM", str(tmp_path))
    return tmp_path


def test_each_takes_what_the_others_have_not(memory: Path) -> None:
    with OwnCpus(USABLE, 2) as first:
        assert first.now() == (0, 1)
        with OwnCpus(USABLE, 3) as third:
            assert third.now() == (0, 2, 5)
            assert third.shared == (0,), "it asked for more than there is"
            first.close()
            assert third.now() == (0, 2, 5)
            assert third.shared == ()
        with OwnCpus(USABLE, 2) as fourth:
            assert (fourth.now(), fourth.shared) == ((0, 1), ())
    assert [*memory.iterdir()] == []


def test_where_a_neighbour_was_first_all_are_shared(memory: Path) -> None:
    (memory / f"artos-cpus-{os.geteuid()}").write_text("not a folder")
    with OwnCpus(USABLE, 2) as mine:
        assert mine.now() == mine.shared == (0, 1)


def test_one_that_was_killed_has_none(memory: Path) -> None:
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(tell, bytes(OwnCpus(USABLE, 4).now()))
        signal.pause()
        sys.exit(1)
    assert os.read(told, 10) == bytes(USABLE)
    with OwnCpus(USABLE, 1) as late:
        assert late.now() == late.shared == (0,)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(told)
    os.close(tell)
    with OwnCpus(USABLE, 1) as next_one:
        assert (next_one.now(), next_one.shared) == ((0,), ())
    assert [*memory.iterdir()] == []


def test_a_folder_that_another_removes_meanwhile_is_tidy(
    memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two workers that are stopped at the same time: the other one is the faster."""
    look = Path.iterdir

    def late(folder: Path) -> Iterator[Path]:
        folder.rmdir()
        return look(folder)

    mine = OwnCpus(USABLE, 1)
    mine.now()
    monkeypatch.setattr(Path, "iterdir", late)
    mine.close()
    monkeypatch.undo()
    assert [*memory.iterdir()] == []
