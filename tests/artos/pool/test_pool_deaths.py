"""Members of a pool that die, stop, fork or never give back: the others go on."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from pool_peer import DEVICE, SECOND, Peer

from artos.pool import table
from artos.pool.effects import Revoked
from artos.pool.faults import NotInPool, PoolStuck
from artos.pool.pool import Pool
from artos.pool.resources import Party
from artos.pool.view import read_pool

pytestmark = pytest.mark.processes
PATIENCE = 60.0


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "pool"
    read_pool(tmp_path / "pool")
    assert not (tmp_path / "pool").exists(), "nothing is left once all are gone"


@pytest.fixture
def pool(folder: Path) -> Iterator[Pool]:
    with Pool.join([DEVICE], folder=folder) as joined:
        yield joined


@pytest.fixture
def peer(folder: Path) -> Iterator[Peer]:
    with Peer(folder, "peer") as started:
        yield started


def test_two_processes_take_turns(pool: Pool, peer: Peer) -> None:
    seat = pool.enter("here")
    for _ in range(3):
        assert peer.do("lease") == "cuda:0"
        assert seat.ask_for_lease() is None
        peer.do("end")
        lease = pool.wait_for(seat, PATIENCE)
        assert lease is not None
        peer.tell("lease")
        while not lease.wanted:
            pass
        lease.close()
        assert peer.hear() == "cuda:0"
        peer.do("end")


def test_a_renewed_lease_is_one_and_the_same(pool: Pool, peer: Peer) -> None:
    """Others have had their turn in between."""
    seat = pool.enter("here")
    with seat.lease() as lease:
        peer.tell("lease").tell("end")
        while not lease.wanted:
            pass
        lease.renew(wait=PATIENCE)
        assert (peer.hear(), peer.hear()) == ("cuda:0", "end")
        assert seat.holds == "cuda:0"
        assert seat.renew_or_queue(lease, None) is lease
    assert seat.holds == ""
    assert peer.do("lease") == "cuda:0"


def test_who_waits_is_next_when_the_holder_is_killed(pool: Pool, peer: Peer) -> None:
    """At once: nothing else would wake it within its patience."""
    peer.do("lease")
    seat = pool.enter("here")
    assert seat.ask_for_lease() is None
    os.kill(peer.process.pid, signal.SIGKILL)
    lease = pool.wait_for(seat, PATIENCE)
    assert lease is not None
    assert lease.resource == "cuda:0"


def test_a_holder_that_joins_later_is_watched_too(pool: Pool, folder: Path) -> None:
    """It joins, and is granted the device, while the other one sleeps already."""
    with Peer(folder, "waits") as waits:
        mine = pool.enter("here").lease()
        waits.tell("lease")
        while not mine.wanted:
            pass
        with Peer(folder, "later") as later:
            pool.table.lease_words(0)  # the device goes to the one that has waited longest
            mine.close()
            assert waits.hear() == "cuda:0"
            later.tell("lease")
            seat = pool.enter("here")
            assert seat.ask_for_lease() is None
            waits.kill()
            assert later.hear() == "cuda:0"
            later.kill()
            lease = pool.wait_for(seat, PATIENCE)
            assert lease is not None


def test_a_killed_waiter_is_passed_over(pool: Pool, peer: Peer, folder: Path) -> None:
    seat = pool.enter("here")
    lease = seat.lease()
    peer.tell("lease")
    while not lease.wanted:
        pass
    peer.kill()
    with Peer(folder, "next") as following:
        following.tell("lease")
        lease.close()
        assert following.hear() == "cuda:0"


@pytest.mark.parametrize("stores", range(3))
def test_death_in_the_midst_of_a_change_harms_nobody(pool: Pool, peer: Peer, stores: int) -> None:
    peer.do("lease")
    peer.do("end")
    seat = pool.enter("here")
    seat.lease().close()
    peer.tell(f"die-inside {stores}").hear()
    with seat.lease(wait=PATIENCE) as lease:
        assert lease.resource == "cuda:0"


@pytest.mark.parametrize("stores", range(3))
def test_death_as_a_party_is_granted_its_devices(folder: Path, stores: int) -> None:
    """All of it has happened, or nothing; what the dead one had, or was to have, is free."""
    with Pool.join([DEVICE, SECOND], folder=folder) as pool, Peer(folder, "w", party=7) as peer:
        seat = pool.enter("w", DEVICE.name, party=Party(7, 2))
        assert seat.ask_for_lease() is None
        peer.tell(f"die-inside {stores}").hear()
        with pool.enter("other", SECOND.name).lease(wait=PATIENCE):
            assert seat.holds == (DEVICE.name if stores else "")
            assert len(read_pool(folder).holders) == (2 if stores else 1)


def test_the_others_of_a_party_have_theirs_at_once(folder: Path) -> None:
    """The process that asks last wakes those that sleep, whichever that is."""
    with Pool.join([DEVICE, SECOND], folder=folder) as pool, Peer(folder, "w", party=7) as peer:
        seat = pool.enter("w", DEVICE.name, party=Party(7, 2))
        for _ in range(3):
            assert seat.ask_for_lease() is None
            peer.tell("lease")
            lease = pool.wait_for(seat, PATIENCE)
            assert lease is not None
            assert peer.hear() == SECOND.name
            lease.close()
            peer.do("end")
            peer.tell("lease")
            while not read_pool(folder).queue:
                pass
            with seat.lease(wait=0.0):
                assert peer.hear() == SECOND.name
            peer.do("end")


def test_a_stopped_process_that_has_the_lock_is_named(
    pool: Pool, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "_LOCK_SECONDS", 0.05)
    peer.tell("stop-inside")
    os.waitid(os.P_PID, peer.process.pid, os.WSTOPPED | os.WNOWAIT)
    with pytest.raises(PoolStuck, match=f"{peer.process.pid}.*was one stopped"):
        pool.enter("here")
    peer.kill()
    pool.enter("here").lease().close()


def test_a_holder_that_hangs_loses_its_lease_and_is_told(folder: Path, peer: Peer) -> None:
    late: list[Revoked] = []
    peer.do("lease 0.05")
    with Pool.join(folder=folder, on_revoked=late.append) as pool:
        seat = pool.enter("here")
        with seat.lease(wait=PATIENCE) as lease:
            assert lease.resource == "cuda:0"
        assert [each.pid for each in late] == [peer.process.pid]
        assert "lost cuda:0" in peer.do("end")
        assert peer.do("lease") == "cuda:0"


def test_a_later_holder_that_hangs_is_noticed_too(folder: Path, peer: Peer) -> None:
    """Its deadline is nearer than what the sleeper waits for."""
    with Pool.join([DEVICE], folder=folder) as pool, Peer(folder, "sleeper") as sleeper:
        lease = pool.enter("here").lease(seconds=10 * PATIENCE)
        peer.tell("lease 0.05")
        while not lease.wanted:
            pass
        sleeper.tell("lease")
        while len(read_pool(folder).queue) < 2:
            pass
        lease.close()
        assert peer.hear() == "cuda:0"
        assert sleeper.hear() == "cuda:0"


def test_a_child_keeps_no_lease_alive(pool: Pool, peer: Peer) -> None:
    peer.do("lease")
    child = int(peer.do("fork"))
    try:
        seat = pool.enter("here")
        assert seat.ask_for_lease() is None
        peer.kill()
        assert pool.wait_for(seat, PATIENCE) is not None
    finally:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


def test_a_child_has_no_part_in_it(pool: Pool, folder: Path) -> None:
    seat = pool.enter("here")
    with seat.lease():
        child = os.fork()
        if not child:
            status = 1
            with suppress(NotInPool):
                seat._lease and seat._lease.close()
                seat.close()
                pool.close()
                pool.enter("child")
                status = 2
            os._exit(0 if status == 1 else status)
        assert os.waitpid(child, 0)[1] == 0
        assert [each.workload for each in read_pool(folder).holders] == ["here"]
