"""Seats of one party get their resources in one change of the table, or hold nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from artos.clock import ManualClock
from artos.pool.faults import LeaseRevoked, LeaseTimeout, PartyIncomplete, PoolRefused
from artos.pool.pool import Pool
from artos.pool.resources import Party, Resource
from artos.pool.seat import Lease, Seat
from artos.pool.table import Table
from artos.pool.view import WaitingView, read_pool
from deploy.cli.pool import text

DEVICES = [Resource("cpu:a"), Resource("cpu:b")]
PARTY = Party(7, 2)


class Stage:
    """Processes of a pool, each with a seat; they live in one process."""

    def __init__(self, folder: Path, clock: ManualClock, *resources: Resource) -> None:
        self.folder, self.clock = folder, clock
        self.join = partial(Pool.join, resources, folder=folder, clock=clock)
        self.pools: dict[Seat, Pool] = {}

    def seat(
        self, workload: str, what: str, party: Party | None = None, weight: float = 1.0
    ) -> Seat:
        pool = self.join()
        seat = pool.enter(workload, what, weight=weight, party=party)
        self.pools[seat] = pool
        return seat

    def party(self, workload: str, number: int, weight: float = 1.0) -> tuple[Seat, Seat]:
        party = Party(number, 2)
        first, second = (self.seat(workload, each.name, party, weight) for each in DEVICES)
        return first, second

    def kill(self, seat: Seat) -> None:
        """As the kernel has it: its locks are gone."""
        pool = self.pools.pop(seat)
        pool.table.locks.drop(pool.member)
        pool.forked()
        pool.table.close()

    def queue(self) -> list[WaitingView]:
        """Who waits; what the dead had is freed."""
        return read_pool(self.folder, self.clock).queue

    def close(self) -> None:
        for pool in self.pools.values():
            pool.close()


@pytest.fixture
def stage(folder: Path, clock: ManualClock) -> Iterator[Stage]:
    made = Stage(folder, clock, *DEVICES)
    yield made
    made.close()


def lease_of(seat: Seat) -> Lease:
    lease = seat.take_lease()
    assert lease is not None, f"{seat} has none"
    return lease


def leases_of(party: tuple[Seat, Seat]) -> list[Lease]:
    """What they have once both have asked."""
    first, second = party
    assert first.ask_for_lease() is None
    lease = second.ask_for_lease()
    assert lease is not None
    return [lease_of(first), lease]


def test_the_last_one_that_asks_has_all_of_them_granted(stage: Stage) -> None:
    first, second = stage.party("p", 7)
    assert first.ask_for_lease() is None
    changes = stage.pools[first].table.changes
    lease = second.ask_for_lease()
    assert lease is not None
    assert stage.pools[first].table.changes == changes + 1
    assert (lease_of(first).resource, lease.resource) == ("cpu:a", "cpu:b")


def test_while_one_of_their_devices_is_held_the_other_is_anybodys(stage: Stage) -> None:
    single, other, (first, second) = (
        stage.seat("s", "cpu:b"), stage.seat("t", "cpu:a"), stage.party("p", 7),
    )  # fmt: skip
    lease = single.lease()
    for seat in (first, second):
        seat.ask_for_lease()
    assert (first.holds, second.holds) == ("", "")
    assert lease.wanted
    stage.clock.advance(1.0)
    with other.lease() as taken:  # it has held nothing yet, and comes before the party
        assert taken.wanted
    assert first.holds == ""
    lease.close()
    assert (first.holds, second.holds) == ("cpu:a", "cpu:b")


def test_who_has_asked_before_its_party_keeps_nobody_from_anything(stage: Stage) -> None:
    single, (first, second) = stage.seat("s", "cpu:a"), stage.party("p", 7)
    lease = single.lease()
    assert first.ask_for_lease() is None
    assert not lease.wanted
    lease.close()
    lease = single.lease()
    second.ask_for_lease()
    assert lease.wanted


def test_two_parties_take_turns(stage: Stage) -> None:
    """Whatever the order in which their processes ask, and give back."""
    parties = {name: stage.party(name, number) for number, name in enumerate("pq", 1)}
    for seat in (*parties["p"], *reversed(parties["q"])):
        seat.ask_for_lease(60.0)
    order = []
    for turn in range(8):
        (name,) = (name for name, seats in parties.items() if seats[0].holds)
        assert [bool(seat.holds) for seats in parties.values() for seat in seats].count(True) == 2
        order.append(name)
        stage.clock.advance(1.0)
        for seat in parties[name][:: 1 if turn % 2 else -1]:
            (seat._lease or lease_of(seat)).close()
            assert seat.ask_for_lease(60.0) is None
    assert order == ["p", "q"] * 4


def test_a_device_is_kept_for_the_party_whose_turn_it_is(stage: Stage) -> None:
    """And it is not its memory that the one waits for that would have had it."""
    x, y, (first, second) = stage.seat("x", "cpu:a"), stage.seat("y", "cpu:b"), stage.party("p", 7)
    leases = [x.lease(), y.lease()]
    stage.clock.advance(1.0)
    for seat in (first, second):
        seat.ask_for_lease()
    stage.clock.advance(9.0)
    leases[0].close()
    assert x.ask_for_lease() is None
    assert [each.why for each in stage.queue()] == ["turn"] * 3
    assert [each.holders for each in read_pool(stage.folder, stage.clock).resources] == [0, 1]
    leases[1].close()
    assert first.holds
    assert second.holds
    lease_of(first).close()
    assert x.holds == "cpu:a"


def test_a_kept_device_goes_to_who_waits_once_the_party_has_left(stage: Stage) -> None:
    x, y, (first, second) = stage.seat("x", "cpu:a"), stage.seat("y", "cpu:b"), stage.party("p", 7)
    leases = [x.lease(), y.lease()]
    first.ask_for_lease()
    second.ask_for_lease()
    stage.clock.advance(9.0)
    leases[0].close()
    assert x.ask_for_lease() is None
    assert second.withdraw() is None
    assert x.holds == "cpu:a"


def test_leases_of_a_party_take_no_more_than_two_changes_each(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It keeps nothing between two leases, so that nobody has one of its devices meanwhile."""
    first, second = stage.party("p", 7)
    table, before = stage.pools[first].table, 0
    for _ in range(3):
        before = table.changes
        first.ask_for_lease()
        lease = second.ask_for_lease()
        assert lease is not None
        for each in (lease_of(first), lease):
            each.close()
    assert table.changes - before == 4


def test_a_single_seat_takes_no_lock_beside_a_party_that_waits_for_one_of_its_own(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    single, (first, _) = stage.seat("s", "cpu:a"), stage.party("p", 7)
    single.lease().close()
    first.ask_for_lease()
    single.lease().close()
    with monkeypatch.context() as patched:
        patched.delattr(Table, "change")
        for _ in range(3):
            single.lease(5.0).close()


# -- deaths ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dies", [0, 1])
def test_killed_before_the_others_have_asked(stage: Stage, dies: int) -> None:
    """The one that has asked waits for it, and nobody for either."""
    single, party = stage.seat("s", "cpu:a"), stage.party("p", 7)
    party[0].ask_for_lease()
    stage.kill(party[dies])
    assert [each.missing for each in stage.queue()] == (
        [] if dies == 0 else [["one seat of the party is not taken"]]
    )
    lease = single.lease(wait=0.0)
    assert not lease.wanted


@pytest.mark.parametrize("dies", [0, 1])
def test_killed_while_it_waits_for_its_turn(stage: Stage, dies: int) -> None:
    holder, next_one = stage.seat("s", "cpu:b"), stage.seat("t", "cpu:a")
    party = stage.party("p", 7)
    lease = holder.lease()
    stage.clock.advance(5.0)
    with next_one.lease():
        for seat in party:
            seat.ask_for_lease()
        stage.clock.advance(50.0)
    assert next_one.ask_for_lease() is None, "cpu:a is kept for the party"
    stage.kill(party[dies])
    stage.pools[next_one]._reclaim_and_decide()
    assert next_one.holds == "cpu:a"
    (waits,) = (each for each in stage.queue() if each.workload == "p")
    assert (waits.why, waits.missing) == ("party", ["one seat of the party is not taken"])
    lease.close()
    assert party[1 - dies].holds == ""


@pytest.mark.parametrize("dies", [0, 1])
def test_killed_as_it_was_to_be_granted_its_device(stage: Stage, dies: int) -> None:
    """Nobody has noticed: none of the party gets anything, and the next one does."""
    holder, next_one = stage.seat("s", "cpu:b"), stage.seat("t", "cpu:b")
    lease, party = holder.lease(), stage.party("p", 7, weight=10.0)
    for seat in (*party, next_one):
        seat.ask_for_lease()
        stage.clock.advance(1.0)
    stage.kill(party[dies])
    lease.close()
    assert party[1 - dies].holds == ""
    assert next_one.holds == "cpu:b"


@pytest.mark.parametrize("dies", [0, 1])
def test_killed_while_it_holds(stage: Stage, dies: int) -> None:
    """Its device is free; the others keep theirs until they give them back."""
    party = stage.party("p", 7)
    party[0].ask_for_lease()
    party[1].ask_for_lease()
    stage.kill(party[dies])
    assert stage.seat("s", ("cpu:a", "cpu:b")[dies]).ask_for_lease() is not None
    left, name = party[1 - dies], ("cpu:b", "cpu:a")[dies]
    assert left.holds == name
    waits = stage.seat("t", name)
    assert waits.ask_for_lease() is None
    (left._lease or lease_of(left)).close()
    assert waits.holds == name


def test_the_party_of_those_that_were_started_again_is_another_one(stage: Stage) -> None:
    old, (first, second) = stage.party("p", 7), stage.party("p", 8)
    old[0].ask_for_lease()
    for seat in (first, second):
        seat.ask_for_lease()
    assert (first.holds, second.holds) == ("cpu:a", "cpu:b")


def test_one_that_hangs_loses_its_device_and_the_others_keep_theirs(stage: Stage) -> None:
    first, second = stage.party("p", 7)
    first.ask_for_lease(5.0)
    second.ask_for_lease(60.0)
    late = lease_of(first)
    stage.clock.advance(6.0)
    assert stage.seat("s", "cpu:a").ask_for_lease() is not None
    with pytest.raises(LeaseRevoked):
        late.close()
    assert second.holds == "cpu:b"
    assert first.ask_for_lease(5.0) is None, "the second one has not asked again"


@pytest.mark.parametrize("last", [0, 1])
def test_a_party_takes_what_is_overdue(stage: Stage, last: int) -> None:
    """Also if the one that asks last waits for nothing but the other one's device."""
    late, party = stage.seat("s", "cpu:b").lease(5.0), stage.party("p", 7)
    for seat in (party[1 - last], party[last]):
        assert seat.ask_for_lease() is None
    stage.clock.advance(6.0)
    for seat in party:
        stage.pools[seat].granted()
    assert [seat.holds for seat in party] == ["cpu:a", "cpu:b"]
    with pytest.raises(LeaseRevoked):
        late.close()


def test_a_party_renews_together(stage: Stage) -> None:
    """A seat that nobody wants gives its device back, too: the others wait for it to ask."""
    single, party = stage.seat("s", "cpu:b"), stage.party("p", 7)
    leases = leases_of(party)
    assert single.ask_for_lease() is None
    assert [lease.renew_or_queue() for lease in leases] == [None, None]
    assert single.holds == "cpu:b"
    lease_of(single).close()
    assert [lease_of(seat).resource for seat in party] == ["cpu:a", "cpu:b"]


def test_one_that_renews_alone_says_who_of_its_party_does_not(stage: Stage) -> None:
    party = stage.party("p", 7)
    leases = leases_of(party)
    with pytest.raises(PartyIncomplete, match=rf"process {os.getpid()} still has cpu:b"):
        leases[0].renew(wait=0.0)
    assert party[1].holds == "cpu:b"


# -- what is said ------------------------------------------------------------------------------


def test_a_wait_that_ends_says_what_it_waited_for(stage: Stage) -> None:
    first, second = stage.party("p", 7)
    pid = os.getpid()
    stage.clock.advance(1.0)
    with pytest.raises(PartyIncomplete, match=rf"cpu:a of .*process {pid} has not asked for cpu:b"):
        first.lease(wait=0.0)
    with stage.seat("holder", "cpu:b").lease():
        first.ask_for_lease()
        with pytest.raises(
            LeaseTimeout, match=r"cpu:b and at the same time cpu:a .* cpu:b by 'holder'"
        ):
            second.lease(wait=0.0)
        assert [each.missing for each in stage.queue()] == [
            [f"process {pid} has not asked for cpu:b"]
        ]
    assert first.holds == ""


def test_artos_pool_shows_a_party_that_waits(stage: Stage) -> None:
    first, second = stage.party("p", 7)
    with stage.seat("holder", "cpu:b").lease():
        first.ask_for_lease()
        shown = text(read_pool(stage.folder, stage.clock))
        assert "cpu:a and cpu:b" in shown
        assert f"process {os.getpid()} has not asked for cpu:b" in shown
        second.ask_for_lease()
        view = read_pool(stage.folder, stage.clock)
        assert [(each.what, each.beside, each.why) for each in view.queue] == [
            ("cpu:a", ["cpu:b"], "turn"),
            ("cpu:b", ["cpu:a"], "turn"),
        ]


def test_waits_for_each_other_are_not_waits_for_the_pool(stage: Stage) -> None:
    first, second = stage.party("p", 7)
    with stage.seat("holder", "cpu:b").lease():
        first.ask_for_lease()
        stage.clock.advance(10.0)
        second.ask_for_lease()
        stage.clock.advance(1.0)
    (used,) = (each for each in stage.pools[first].usage() if each.workload == "p")
    assert (used.waits, used.turns, used.waited_for_turn_seconds) == (2, 2, 2.0)


def test_memory_of_each_device_is_minded(folder: Path, clock: ManualClock) -> None:
    resources = (Resource("cpu:a", memory_mb=100), Resource("cpu:b", memory_mb=100))
    with ExitStack() as opened:
        stage = Stage(folder, clock, *resources)
        opened.callback(stage.close)
        other, (first, second) = stage.seat("s", "cpu:b"), stage.party("p", 7)
        other.set_memory(70, left_mb=70)
        second.set_memory(40)
        first.ask_for_lease()
        second.ask_for_lease()
        assert [each.why for each in stage.queue()] == ["turn", "memory"]
        assert second.shortage is not None
        assert first.shortage is None
        other.set_memory(70, left_mb=60)
        assert (first.holds, second.holds) == ("cpu:a", "cpu:b")


def test_a_party_that_waits_for_a_turn_lacks_no_memory(folder: Path, clock: ManualClock) -> None:
    """Nobody has to make room on one device before the party could have the other one."""
    resources = (Resource("cpu:a"), Resource("cpu:b", memory_mb=100))
    with ExitStack() as opened:
        stage = Stage(folder, clock, *resources)
        opened.callback(stage.close)
        holder, idle = stage.seat("s", "cpu:a"), stage.seat("t", "cpu:b")
        first, second = stage.party("p", 7)
        idle.set_memory(70, left_mb=70)
        second.set_memory(40)
        lacking = partial(stage.pools[idle].lacking_mb, "cpu:b", now=True)
        lease = holder.lease()
        first.ask_for_lease()
        second.ask_for_lease()
        assert [each.why for each in stage.queue()] == ["turn", "turn"]
        assert (second.shortage, lacking()) == (None, 0)
        lease.close()
        assert [each.why for each in stage.queue()] == ["turn", "memory"]
        assert lacking() == 10
        assert second.shortage is not None
        holder.lease()
        assert (second.shortage, lacking()) == (None, 0)


@pytest.mark.parametrize(
    ("workload", "what", "party", "said"),
    [
        ("p", "device", PARTY, "'device' is a kind of resources: a seat of a party names"),
        ("p", "cpu:a", PARTY, "another seat of the party is for cpu:a"),
        ("q", "cpu:b", PARTY, "all are of one workload"),
        ("p", "cpu:b", Party(7, 3), "say the same number of seats and priority"),
        ("p", "slot:0", PARTY, "for one kind of resources"),
        ("p", "cpu:b", Party(0, 2), r"number must be within 1 and 2\*\*63 - 1"),
        ("p", "cpu:b", Party(8, 1), "seats must be within 2 and 1024"),
    ],
)
def test_refused(folder: Path, workload: str, what: str, party: Party, said: str) -> None:
    with Pool.join([*DEVICES, Resource("slot:0", "slot")], folder=folder) as pool:
        pool.enter("p", "cpu:a", party=PARTY)
        with pytest.raises(PoolRefused, match=said):
            pool.enter(workload, what, party=party)


def test_seats_of_a_party_have_one_priority(folder: Path) -> None:
    with Pool.join(DEVICES, folder=folder) as pool:
        pool.enter("p", "cpu:a", priority=5, party=PARTY)
        with pytest.raises(PoolRefused, match="say the same number of seats and priority"):
            pool.enter("p", "cpu:b", priority=-5, party=PARTY)
        pool.enter("p", "cpu:b", priority=5, party=PARTY)


def test_a_party_that_is_complete_takes_no_further_seat(folder: Path) -> None:
    with Pool.join([*DEVICES, Resource("cpu:c")], folder=folder) as pool:
        for name in ("cpu:a", "cpu:b"):
            pool.enter("p", name, party=PARTY)
        with pytest.raises(PoolRefused, match="it has 2 seats"):
            pool.enter("p", "cpu:c", party=PARTY)
