"""A pool of several users: they take turns in a folder that a group shares, and nobody else can."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pool_peer import DEVICE, Peer

from artos.errors import NotOurs
from artos.pool import records
from artos.pool.folder import PoolFolder, pool_folder, wake_up_name
from artos.pool.pool import Pool
from artos.pool.records import MemberRecord
from artos.pool.view import clean, read_pool
from artos.pool.watch import WakeUps

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can be several users"),
]
GROUP, ONE, TWO = 64_200, 64_201, 64_202


@pytest.fixture
def shared() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as parent:  # which others may pass through
        Path(parent).chmod(0o711)
        folder = Path(parent, "pool")
        folder.mkdir()
        os.chown(folder, 0, GROUP)
        folder.chmod(0o2770)
        yield folder
        read_pool(folder)
        assert [*folder.iterdir()] == []


def test_users_of_a_group_take_turns_and_what_a_dead_one_held_is_the_others(shared: Path) -> None:
    with Peer(shared, "one", ONE, GROUP) as one, Peer(shared, "two", TWO, GROUP) as two:
        assert one.do("lease") == "cuda:0"
        two.tell("lease")
        one.do("end")
        assert two.hear() == "cuda:0"
        one.tell("lease")
        two.kill()
        assert one.hear() == "cuda:0"
        assert [each.workload for each in read_pool(shared).holders] == ["one"]
    assert shared.exists(), "it is not ours to remove"


def test_who_is_not_in_the_group_has_no_part(shared: Path) -> None:
    with Peer(shared, "one", ONE, GROUP), pytest.raises(AssertionError, match="did not come up"):
        Peer(shared, "stranger", TWO, TWO)


def test_a_folder_that_everybody_may_enter_is_refused(shared: Path) -> None:
    shared.chmod(0o2777)
    with pytest.raises(NotOurs, match="not just its group"):
        Pool.join(folder=shared)
    shared.chmod(0o2770)


def as_user(user: int, act: Callable[[], object]) -> None:
    """Have another user do something, to its end."""
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
            act()
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A place in which everybody may make folders, as in /dev/shm."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
        Path(place).chmod(0o1777)
        monkeypatch.setenv("ARTOS_SHM", place)
        yield Path(place)


@pytest.mark.parametrize("mode", [0o2770, 0o700, 0o1777])
def test_a_folder_that_a_neighbour_made_in_our_place_is_refused(memory: Path, mode: int) -> None:
    folder = pool_folder()

    def plant() -> None:
        folder.mkdir()
        folder.chmod(mode)
        (folder / "table").symlink_to("/etc/hostname")

    as_user(ONE, plant)
    for enter in (Pool.join, read_pool, clean):
        with pytest.raises(NotOurs, match=f"belongs to user {ONE}"):
            enter()
    assert (folder / "table").is_symlink()


def test_a_neighbours_folder_is_refused_where_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "group"
    folder.mkdir()
    os.chown(folder, ONE, GROUP)
    folder.chmod(0o2770)
    monkeypatch.setenv("ARTOS_POOL", str(folder))
    with pytest.raises(NotOurs, match="a group's pool must be root's"):
        Pool.join()


def test_a_groups_folder_must_be_named(memory: Path) -> None:
    folder = pool_folder()
    folder.mkdir()
    folder.chmod(0o2770)
    with pytest.raises(NotOurs, match=f"must be named .ARTOS_POOL={folder}"):
        Pool.join()


def test_our_own_folder_to_which_a_group_may_write_is_no_pool(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine").chmod(0o770)
    with pytest.raises(NotOurs, match="its group may write to it"):
        Pool.join(folder=tmp_path / "mine")


def test_no_link_of_a_member_is_followed(shared: Path, tmp_path: Path) -> None:
    precious = tmp_path / "secret"
    precious.write_text("root's secret")
    precious.chmod(0o600)
    with Peer(shared, "one", ONE, GROUP) as one, Pool.join([DEVICE], folder=shared) as pool:
        seat = pool.enter("root's")
        with seat.lease(1.0):
            one.tell("lease")
            while not seat._words[records.DEMAND]:  # until it waits
                os.sched_yield()
            wake_up = shared / wake_up_name(0)
            wake_up.unlink()
            wake_up.symlink_to(precious)
            os.lchown(wake_up, ONE, GROUP)
        assert one.hear() == "cuda:0", "it looks by itself once the lease is over"
    assert precious.read_text() == "root's secret"


@pytest.mark.parametrize("what", ["link", "file", "other's FIFO"])
def test_only_a_bell_of_the_pool_is_rung(shared: Path, tmp_path: Path, what: str) -> None:
    target = tmp_path / "target"
    if what == "other's FIFO":
        os.mkfifo(shared / wake_up_name(3), 0o600)
        os.chown(shared / wake_up_name(3), ONE, ONE)
    else:
        target.write_bytes(b"precious")
        if what == "link":
            (shared / wake_up_name(3)).symlink_to(target)
        else:
            (shared / wake_up_name(3)).write_bytes(b"precious")
    with PoolFolder.open(shared) as folder, WakeUps(folder) as wake_ups:
        wake_ups.wake(3, MemberRecord(1, 1, 0, "victim"))
        assert not wake_ups._opened
        folder.clear()
    assert not target.exists() or target.read_bytes() == b"precious"


def test_the_folder_is_named_by_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARTOS_POOL", str(tmp_path / "p"))
    assert pool_folder() == tmp_path / "p"
    with Pool.join():
        assert (tmp_path / "p").stat().st_mode & 0o777 == 0o700
