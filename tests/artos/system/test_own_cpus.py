"""Workers of one machine take different CPUs, and leave nothing."""

from __future__ import annotations

import fcntl
import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from artos.system import own_cpus
from artos.system.own_cpus import OwnCpus

USABLE = (0, 1, 2, 5)
NEIGHBOUR = 64_203
of_two_users = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be several users")


@contextmanager
def another(user: int, act: Callable[[], tuple[int, ...]]) -> Iterator[tuple[int, ...]]:
    """What a process of that user returns, which lives until the end of the block and is killed."""
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.umask(0o077)
            if user != os.geteuid():
                os.setgroups([])
                os.setgid(user)
                os.setuid(user)
            os.write(tell, bytes(act()) or b"\xff")
            signal.pause()
        finally:
            os._exit(1)
    os.close(tell)
    try:
        found = os.read(told, 10)
        assert found, "it failed"
        yield tuple(found)
    finally:
        os.close(told)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


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


def test_one_that_was_killed_has_none(memory: Path) -> None:
    with another(os.geteuid(), lambda: OwnCpus(USABLE, 4).now()) as taken:
        assert taken == USABLE
        with OwnCpus(USABLE, 1) as late:
            assert late.now() == late.shared == (0,)
    with OwnCpus(USABLE, 1) as next_one:
        assert (next_one.now(), next_one.shared) == ((0,), ())
    assert [*memory.iterdir()] == []


def test_a_mark_that_another_removes_meanwhile_is_made_anew(
    memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two workers, of which one stops as the other one starts."""
    lock, others = fcntl.flock, memory / "artos-cpu-0"
    others.touch()

    def late(descriptor: int, how: int) -> None:
        others.unlink()
        monkeypatch.undo()
        monkeypatch.setenv("ARTOS_SHM", str(memory))
        lock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with OwnCpus(USABLE, 1) as mine:
        assert (mine.now(), mine.shared) == ((0,), ())
        assert own_cpus.tidy() == []
        with OwnCpus(USABLE[:1], 1) as late_one:
            assert late_one.now() == late_one.shared == (0,)
    assert [*memory.iterdir()] == []


@pytest.fixture
def open_to_all(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Memory in which all users may make files, and each may remove its own, as in /dev/shm."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
        Path(place).chmod(0o1777)
        monkeypatch.setenv("ARTOS_SHM", place)
        yield Path(place)


@of_two_users
def test_users_take_different_ones_also_those_of_each_others_killed_workers(
    open_to_all: Path,
) -> None:
    with OwnCpus(USABLE, 1) as mine:
        mine.now()
        with another(NEIGHBOUR, lambda: OwnCpus(USABLE, 2).now()) as theirs:
            assert theirs == (1, 2)
            with OwnCpus(USABLE, 2) as rest:
                assert (rest.now(), rest.shared) == ((0, 5), (0,))
    with another(os.geteuid(), lambda: OwnCpus(USABLE, 1).now()):
        pass  # root's mark is left, which the neighbour may use, but not remove

    def with_what_root_left() -> tuple[int, ...]:
        with OwnCpus(USABLE[:1], 1) as theirs:
            theirs.now()
            own = theirs.shared == ()
        return (own, own_cpus.tidy() == [], (open_to_all / "artos-cpu-0").exists())

    with another(NEIGHBOUR, with_what_root_left) as seen:
        assert seen == (True, True, True)
    assert own_cpus.tidy() == [open_to_all / "artos-cpu-0"]
    assert [*open_to_all.iterdir()] == []


@of_two_users
def test_what_another_user_puts_there_costs_no_more_than_that_cpu(
    open_to_all: Path, tmp_path: Path
) -> None:
    link, closed, checked, fifo = (open_to_all / f"artos-cpu-{cpu}" for cpu in USABLE)
    (tmp_path / "lock").touch()
    link.symlink_to(tmp_path / "lock")
    closed.touch(mode=0o600)
    checked.touch()
    os.mkfifo(fifo, 0o622)

    def victim() -> tuple[int, ...]:
        with OwnCpus((*USABLE, 7), 2) as theirs:
            return (*theirs.now(), *theirs.shared)

    with checked.open() as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        with another(NEIGHBOUR, victim) as seen:
            assert seen == (0, 7, 0)
        with OwnCpus(USABLE[:3:2], 2) as roots:
            assert roots.now() == roots.shared == (0, 2)
    assert link.is_symlink()
