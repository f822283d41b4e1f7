"""Many members, random orders, random deaths: each lease is granted once and nobody is forgotten.

The members live in one process; a member dies by losing its lock, as the kernel has it.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from helpers import ROOT
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from artos.clock import ManualClock
from artos.pool.faults import LeaseRevoked, PoolRefused
from artos.pool.pool import Pool
from artos.pool.records import ASKS, EARLY, WAITING
from artos.pool.resources import Party, Resource
from artos.pool.seat import Lease, Seat
from artos.pool.view import read_pool

RESOURCES = [Resource("a"), Resource("b", share=2, memory_mb=100), Resource("c", "slot")]
SEATS = st.integers(0, 7)


class Member:
    """A pool, its seats, and the leases it believes to have."""

    def __init__(self, folder: Path, clock: ManualClock) -> None:
        self.pool = Pool.join(RESOURCES, folder=folder, clock=clock)
        self.seats: list[Seat] = []
        self.leases: dict[Seat, Lease] = {}
        self.waiting: set[Seat] = set()

    def enter(self, number: int) -> None:
        what = ("device", "device", "b", "slot")[number % 4]
        memory = (0, 60)[number % 2]
        weight = 1.0 + number % 3
        self.seats.append(
            self.pool.enter(
                f"w{number}", what, weight=weight, memory_mb=memory if what != "slot" else 0
            )
        )

    def enter_party(self, number: int, what: str) -> None:
        with suppress(PoolRefused):  # that party has such a seat already
            self.seats.append(self.pool.enter(f"p{number}", what, party=Party(number, 2)))

    def got(self, seat: Seat, lease: Lease | None) -> None:
        if lease is not None:
            self.waiting.discard(seat)
            self.leases[seat] = lease

    def collect(self) -> None:
        self.pool.granted()
        for seat in [*self.waiting]:
            if seat._lease is not None:
                self.got(seat, seat._lease)

    def end(self, seat: Seat) -> None:
        lease = self.leases.pop(seat, None)
        if lease is not None:
            with suppress(LeaseRevoked):
                lease.close()

    def valid(self) -> list[str]:
        """The resources it may use; a late holder whose lease was taken away is told so."""
        found = []
        for lease in self.leases.values():
            with suppress(LeaseRevoked):
                lease.check()
                found.append(lease.resource)
        return found

    def die(self) -> None:
        self.pool.table.locks.drop(self.pool.member)
        self.pool.forked()
        self.pool.table.close()


class Members(RuleBasedStateMachine):
    """Up to four members."""

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.clock = ManualClock(10.0)
        self.members: list[Member] = []

    def teardown(self) -> None:
        if hasattr(self, "members"):
            for member in self.members:
                member.pool.close()
            read_pool(self.folder / "pool")
            assert not (self.folder / "pool").exists()
            shutil.rmtree(self.folder)

    def member(self, number: int) -> Member | None:
        return self.members[number % len(self.members)] if self.members else None

    def seat(self, number: int) -> tuple[Member, Seat] | None:
        member = self.member(number)
        return (
            (member, member.seats[number % len(member.seats)]) if member and member.seats else None
        )

    @rule(seats=st.lists(SEATS, min_size=1, max_size=3))
    def join(self, seats: list[int]) -> None:
        if len(self.members) < 4:
            member = Member(self.folder / "pool", self.clock)
            self.members.append(member)
            for number in seats:
                member.enter(number)

    @rule(numbers=st.permutations([1, 2]), both=st.booleans())
    def join_as_parties(self, numbers: list[int], both: bool) -> None:
        """Two members, each with a seat of one party, or of two."""
        if len(self.members) < 3:
            for what in "ab":
                self.members.append(Member(self.folder / "pool", self.clock))
                for number in numbers[: 1 + both]:
                    self.members[-1].enter_party(number, what)

    @rule(seconds=st.sampled_from([0.0, 2.0]))
    def all_ask(self, seconds: float) -> None:
        for member in self.members:
            for seat in member.seats:
                if seat not in member.leases and seat not in member.waiting:
                    member.waiting.add(seat)
                    member.got(seat, seat.ask_for_lease(seconds))

    @rule(number=SEATS, seconds=st.sampled_from([0.0, 0.0, 2.0]))
    def ask(self, number: int, seconds: float) -> None:
        if found := self.seat(number):
            member, seat = found
            if seat not in member.leases and seat not in member.waiting:
                member.waiting.add(seat)
                member.got(seat, seat.ask_for_lease(seconds))

    @rule(number=SEATS)
    def end(self, number: int) -> None:
        if found := self.seat(number):
            found[0].end(found[1])

    @rule(number=SEATS, left=st.integers(0, 60))
    def leave_some(self, number: int, left: int) -> None:
        """Of the resource whose memory is counted."""
        if (found := self.seat(number)) and found[1].what == "b":
            found[1].set_memory(60, left)

    @rule(number=SEATS)
    def end_and_ask_again(self, number: int) -> None:
        """Much of a run is this, and no lock is taken."""
        for _ in range(3):
            self.end(number)
            self.ask(number, 0.0)

    @rule(number=SEATS)
    def renew_or_queue(self, number: int) -> None:
        if (found := self.seat(number)) and found[1] in found[0].leases:
            member, seat = found
            try:
                again = member.leases[seat].renew_or_queue()
            except LeaseRevoked:
                return
            if again is None:
                del member.leases[seat]
                member.waiting.add(seat)
            else:  # it may be another one
                member.leases[seat] = again

    @rule(number=SEATS)
    def withdraw(self, number: int) -> None:
        if (found := self.seat(number)) and found[1] in found[0].waiting:
            member, seat = found
            member.got(seat, seat.withdraw())
            member.waiting.discard(seat)

    @rule(number=SEATS)
    def collect(self, number: int) -> None:
        if member := self.member(number):
            member.collect()

    @rule(number=SEATS)
    def leave(self, number: int) -> None:
        if member := self.member(number):
            self.members.remove(member)
            member.pool.close()

    @rule(number=SEATS)
    def die(self, number: int) -> None:
        if member := self.member(number):
            self.members.remove(member)
            member.die()

    @rule(seconds=st.floats(0.1, 5.0))
    def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @invariant()
    def each_is_granted_once(self) -> None:
        if not hasattr(self, "members"):
            return
        held = Counter(name for member in self.members for name in member.valid())
        for resource in RESOURCES:
            assert held[resource.name] <= resource.share

    @rule()
    def in_the_end_everybody_is_served(self) -> None:
        """If all that hold give back, and those that are granted something too, none waits.

        Those that have left something there clear it.
        """
        for seat in [seat for member in self.members for seat in member.seats if seat.what == "b"]:
            seat.set_memory(60)
        read_pool(self.folder / "pool", self.clock)  # what the dead had is freed
        for _ in range(40):
            for member in self.members:
                member.collect()
                for seat in [*member.leases]:
                    member.end(seat)
        asking = Counter(
            seat.workload for member in self.members for seat in member.waiting if not seat.alone
        )
        waiting = [seat for member in self.members for seat in member.waiting]
        assert all(not seat.alone and asking[seat.workload] == 1 for seat in waiting)

    @invariant()
    def a_party_that_waits_has_nothing(self) -> None:
        """All of its seats that have asked wait, or none does, as long as one of them lacks it."""
        if not getattr(self, "members", None):
            return
        table = self.members[0].pool.table
        with self.members[0].pool.changing():
            seats = [each for each in table.seats.values() if each.party]
            for number in {each.party for each in seats}:
                states = [each.state for each in seats if each.party == number]
                asks = [state for state in states if state in ASKS]
                assert asks in ([], [EARLY], [WAITING] * 2)


Members.TestCase.settings = settings(max_examples=60, stateful_step_count=40)
TestMembers = Members.TestCase


_RACER = """if True:
    import os, random, signal, sys
    from pathlib import Path
    import mmap
    from artos.pool.pool import Pool
    from artos.pool.resources import Resource
    folder, seed, seconds = Path(sys.argv[1]), int(sys.argv[2]), 20
    dice = random.Random(seed)
    with open(folder / "used", "r+b") as file:
        used = memoryview(mmap.mmap(file.fileno(), 4096)).cast("q")
    def alive(pid):  # not if it is about to exit: its locks go first, the process after that
        try:
            stat = open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()
        except OSError:
            return False
        return stat[0] not in "ZX" and not int(stat[6]) & 4  # PF_EXITING
    pool = Pool.join([Resource("r0"), Resource("r1")], folder=folder / "pool")
    seat = pool.enter(f"w{seed % 3}", weight=1 + seed % 3)
    print("in", flush=True)
    turns = int(sys.argv[3])
    for turn in range(turns):
        with seat.lease(wait=100) as lease:
            for _ in range(dice.choice([1, 1, 30])):
                at = int(lease.resource[1:])
                if used[at] and used[at] != os.getpid() and alive(used[at]):
                    sys.exit(f"{lease.resource} is used by {used[at]}, too")
                used[at] = os.getpid()
                if dice.random() < float(sys.argv[4]):
                    os.kill(os.getpid(), signal.SIGKILL)
            used[at] = 0
    pool.close()
"""


@pytest.mark.processes
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
def test_processes_that_die_at_random_never_share_a_lease(tmp_path: Path, seed: int) -> None:
    """Six at a time on two devices; some die while they hold, all others reach their end."""
    (tmp_path / "used").write_bytes(bytes(4096))
    dice, ends = random.Random(seed), Counter[int]()
    for begin in range(2):
        racers = [
            subprocess.Popen(
                [sys.executable, "-c", _RACER, str(tmp_path), str(10 * seed + begin * 6 + number),
                 "150", str(dice.choice([0.0, 0.0, 0.002]))],
                env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.DEVNULL,
            )
            for number in range(6)
        ]  # fmt: skip
        try:
            if begin:  # one that waits, most likely
                racers[0].send_signal(signal.SIGKILL)
            for racer in racers:
                ends[racer.wait(100)] += 1
        finally:
            for racer in racers:
                racer.kill()
                racer.wait()
    assert set(ends) <= {0, -signal.SIGKILL}
    assert ends[0] >= 4
    read_pool(tmp_path / "pool")
    assert not (tmp_path / "pool").exists()
