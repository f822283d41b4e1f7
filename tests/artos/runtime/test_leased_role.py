"""A learner that leases its device for each update: when it waits, what it says, what it frees."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from artos.clock import ManualClock
from artos.errors import CannotReturn, ReplicaLost
from artos.pool.faults import DeviceFull, DeviceTooSmall, NoMemoryInTime
from artos.pool.pool import Pool
from artos.pool.resources import Party, Resource
from artos.pool.seat import Lease, Seat
from artos.pool.table import Table
from artos.pool.view import read_pool
from artos.protocol.invocations import Done, Failed, Invoke, Waits
from artos.runtime import leased
from artos.runtime.leased import LeasedRole
from artos.runtime.member import Stopped, guarded
from artos.specs.levels import Cost, Level

CALL = Invoke(7, "learner.update", "update")
DEADLINE = 300.0
BIG = 200
"""MB of the device whose memory is counted."""


class Learner:
    """Stands for a learner's role; ``act`` is what happens during an update."""

    def __init__(self) -> None:
        self.act: Callable[[], object] = lambda: None
        self.residency: Any = None
        self.calls = 0

    def run(self, call: Invoke) -> Done:
        self.calls += 1
        self.act()
        return Done(call.firing, self.calls, times={"learn": 1.0})

    def step(self) -> int:
        return self.calls

    def close(self) -> None:
        """Nothing."""


class OutOfMemory(Exception):
    """What torch raises where it finds no room on a GPU."""


class Memory:
    """A residency and its device: they note to which level it was left, and its limits (MB)."""

    CONTEXT, KEPT = 20, 60

    def __init__(self, peak_mb: int) -> None:
        self.peak_mb, self.left, self.limits = peak_mb, list[Level](), list[int]()
        self.costs = {Level.TRIM: Cost(1 << 20, 0.001), Level.PARK: Cost(60 << 20, 0.01)}
        self.level, self.resident_bytes = Level.KEEP, 1
        self.device = SimpleNamespace(
            out_of_memory=OutOfMemory,
            context_bytes=self.CONTEXT << 20,
            peak_bytes=lambda: self.peak_mb << 20,
            taken_bytes=lambda held: (self.KEPT if self.level < Level.PARK else 0) << 20,
            limit=lambda size: self.limits.append(size >> 20),
        )

    def leave(self, level: Level) -> None:
        self.left.append(level)
        self.level = max(self.level, level)


class Stage:
    """A learner in the pool, and another seat for the same device."""

    def __init__(self, folder: Path, memory_mb: int = 0, memory: Memory | None = None) -> None:
        self.clock, self.folder = ManualClock(1000.0), folder
        join = partial(Pool.join, folder=folder, clock=self.clock)
        resource = Resource("cuda:0", memory_mb=memory_mb)
        self.pool, self.others = join([resource]), join()
        self.other: Seat = self.others.enter("other", "cuda:0")
        self.learner, self.reports, self.stopped = Learner(), list[str](), False
        self.learner.residency = memory
        self.role = self.joined()
        self.on_report: Callable[[], object] = lambda: None

    def joined(self) -> LeasedRole:
        """The learner's role, as in a process of its own."""
        return LeasedRole(
            self.learner, self.pool, self.pool.enter("mine", ["cuda:0"]), DEADLINE, self._heard,
            lambda: self.stopped,
        )  # type: ignore[arg-type]  # fmt: skip

    def _heard(self, waits: Waits) -> None:
        self.reports.append(waits.what)
        if waits.what:
            self.on_report()

    def left_seconds(self) -> float | None:
        """How long the learner's present lease is to be respected."""
        (holder,) = read_pool(self.folder, self.clock).holders
        return holder.left_seconds

    def takes(self, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
        """Each update takes so long by the learner's clock."""
        ticking = SimpleNamespace(now=0.0)
        self.learner.act = lambda: setattr(ticking, "now", ticking.now + seconds)
        monkeypatch.setattr(leased.time, "perf_counter", lambda: ticking.now)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path / "pool")
    with ExitStack() as stack:
        stack.callback(made.others.close)
        stack.callback(made.role.close)
        yield made
    assert not (tmp_path / "pool").exists()


def test_while_nobody_waits_it_takes_no_lock_and_says_nothing(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.role.run(CALL)
    with monkeypatch.context() as patched:
        patched.delattr(Table, "change")
        assert stage.role.run(CALL) == Done(7, 2, times={"learn": 1.0})
    assert stage.reports == []
    assert stage.role.device == "cuda:0"


def test_it_waits_for_its_turn_and_says_so(stage: Stage) -> None:
    lease = stage.other.lease()
    stage.on_report = lease.close
    stage.learner.act = lambda: pytest.fail("not yet") if stage.other.holds else None
    done = stage.role.run(CALL)
    assert stage.reports == ["a device", ""]
    assert (done.version, done.lost_lease) == (1, "")
    assert done.times.keys() == {"learn", "wait_for_device"}
    assert stage.other.ask_for_lease() is not None, "it was given back after the update"
    stage.other._lease.close()  # type: ignore[union-attr]


def test_it_hears_that_it_is_to_stop_while_it_waits(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leased, "_LISTEN_SECONDS", 0.0)
    lease = stage.other.lease()
    stage.stopped = True
    with pytest.raises(Stopped):
        stage.role.run(CALL)
    assert stage.reports == ["a device"], "its invocation is not begun"
    assert not lease.wanted, "it is not in the queue any more"
    lease.close()
    assert stage.role.run(CALL).version == 1


class Replicas:
    """A learner that is one of two; ``steps`` happen one by one, each while it waits next."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock, waited = ManualClock(1000.0), Pool.wait_for
        join = partial(Pool.join, folder=folder, clock=self.clock)
        self.pool, self.others = join([Resource("cpu:a"), Resource("cpu:b")]), join()
        self.other = self.others.enter("mine", "cpu:b", party=Party(7, 2))
        self.single = self.others.enter("other", "cpu:b")
        self.reports, self.steps, learner = list[str](), list[Callable[[], object]](), Learner()
        learner.act = lambda: pytest.fail("it is alone") if not self.other.holds else None

        def interrupted(pool: Pool, seat: Seat, seconds: float) -> Lease | None:
            if self.steps:
                self.steps.pop(0)()
            return waited(pool, seat, 0.0)

        monkeypatch.setattr(Pool, "wait_for", interrupted)
        self.role = LeasedRole(
            learner, self.pool, self.pool.enter("mine", "cpu:a", party=Party(7, 2)), DEADLINE,
            lambda waits: self.reports.append(waits.what), lambda: False,
        )  # type: ignore[arg-type]  # fmt: skip


@pytest.fixture
def replicas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Replicas]:
    made = Replicas(tmp_path / "pool", monkeypatch)
    with made.others, made.pool:
        yield made


@pytest.mark.parametrize(
    ("late", "held", "said"),
    [
        (False, False, []),
        (True, False, ["the other replicas", ""]),
        (False, True, ["a device", ""]),
        (True, True, ["the other replicas", "a device", ""]),
    ],
)
def test_a_replica_waits_for_the_others_and_only_then_for_a_device(
    replicas: Replicas, late: bool, held: bool, said: list[str]
) -> None:
    """Nothing is said of the moments between their asking, at each update."""
    if held:
        replicas.single.ask_for_lease()
    steps: list[Callable[[], object]] = [replicas.other.ask_for_lease]
    if late:
        steps.insert(0, lambda: None)
    if held:
        steps += [lambda: None, replicas.single.close]
    replicas.steps = steps
    assert replicas.role.run(CALL).times.keys() == {"learn", "wait_for_device"}
    assert replicas.reports == said


def test_a_replica_does_not_wait_for_ever_for_one_that_hangs(replicas: Replicas) -> None:
    """To the run it waits, so that nobody else would end that."""
    replicas.single.ask_for_lease()

    def pass_time() -> None:
        replicas.clock.advance(DEADLINE / 4)

    replicas.steps = [pass_time] * 10
    with pytest.raises(
        ReplicaLost, match=rf"process {os.getpid()} has not asked for cpu:b, not within 270 s"
    ):
        replicas.role.run(CALL)
    assert len(replicas.steps) == 10 - 4 - 1
    assert replicas.reports == ["the other replicas"]
    assert not replicas.role._seat.waits


def test_a_replica_waits_for_a_turn_as_long_as_that_takes(replicas: Replicas) -> None:
    replicas.single.ask_for_lease()
    steps: list[Callable[[], object]] = [lambda: replicas.clock.advance(DEADLINE)] * 3
    replicas.steps = [replicas.other.ask_for_lease, *steps, replicas.single.close]
    assert replicas.role.run(CALL).version == 1


def test_a_lease_is_as_long_as_updates_of_its_kind_take(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[float | None] = []
    for seconds in (0.01, 0.01, 2.0, 1.0, 100.0, 0.0):
        stage.takes(seconds, monkeypatch)
        act = stage.learner.act
        stage.learner.act = lambda act=act: (seen.append(stage.left_seconds()), act())
        stage.role.run(CALL)
    assert seen == [DEADLINE, 1.0, 1.0, 10.0, 10.0, DEADLINE]
    for _ in range(5):
        stage.takes(0.3, monkeypatch)
        stage.role.run(CALL)
    stage.learner.act = lambda: seen.append(stage.left_seconds())
    stage.role.run(CALL)
    assert seen[-1] == 1.5, "only the last five count"
    stage.role.run(Invoke(8, "learner.accumulate", "accumulate"))
    assert seen[-1] == DEADLINE, "nobody knows how long these take"


def test_an_update_that_loses_its_lease_counts_and_the_next_one_waits(stage: Stage) -> None:
    def too_long() -> None:
        assert stage.other.ask_for_lease() is None
        stage.clock.advance(DEADLINE + 1)
        stage.others.granted()
        assert stage.other.holds == "cuda:0"

    stage.learner.act = too_long
    done = stage.role.run(CALL)
    assert (done.version, done.lost_lease, stage.reports) == (1, "cuda:0", [])
    stage.learner.act = lambda: None
    stage.on_report = stage.other._lease.close  # type: ignore[union-attr]
    assert stage.role.run(CALL).lost_lease == ""
    assert stage.reports == ["a device", ""]


def test_what_users_code_raises_gives_the_device_back(stage: Stage) -> None:
    def fail() -> None:
        raise RuntimeError("my loss is wrong")

    stage.learner.act = fail
    with pytest.raises(RuntimeError, match="my loss is wrong"):
        stage.role.run(CALL)
    with stage.other.lease(wait=0.0) as lease:
        assert lease.resource == "cuda:0"


@pytest.fixture
def big(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """Memory is counted, and the learner takes 80 MB of it and a context."""
    made = Stage(tmp_path / "pool", BIG, Memory(peak_mb=80))
    made.takes(0.0, monkeypatch)  # how long it pauses decides whether clearing is worth it
    with made.others, made.pool:
        yield made
    assert not (tmp_path / "pool").exists()


def there(stage: Stage) -> tuple[int, int]:
    """MB of the device that the table says are taken, and those of them without a lease."""
    device = read_pool(stage.folder, stage.clock).resources[0]
    return device.memory_taken_mb, device.memory_idle_mb


def test_after_the_first_update_its_memory_is_known_and_limited(big: Stage) -> None:
    memory: Memory = big.learner.residency
    assert there(big) == (80, 80), "it was set up there"
    big.role.run(CALL)
    assert (memory.limits, memory.left, there(big)) == ([100], [], (80, 80))
    seen: list[tuple[int, int]] = []
    big.learner.act = lambda: seen.append(there(big))
    big.role.run(CALL)
    assert (memory.limits, memory.left, seen) == ([100], [], [(120, 0)]), "that is measured once"


def test_a_learner_that_grows_asks_for_more_at_its_next_turn(big: Stage) -> None:
    memory: Memory = big.learner.residency
    big.role.run(CALL)
    memory.peak_mb = 96  # within its limit of 100
    big.role.run(CALL)
    assert memory.limits == [100, 120]
    other = big.others.enter("idle", "cuda:0")
    other.set_memory(0, left_mb=61)
    big.on_report = lambda: other.set_memory(0, left_mb=60)
    big.role.run(CALL)
    assert big.reports == ["a device", ""], "there were 139 MB for it, and it needs 140"


def test_an_update_without_room_is_tried_again_with_more_and_only_once(big: Stage) -> None:
    def fail() -> None:
        raise OutOfMemory("tried to allocate 30 MB")

    big.learner.act, memory = fail, big.learner.residency
    with pytest.raises(DeviceFull, match=r"more of cuda:0 than the 100 MB .* once 200 MB are free"):
        big.role.run(CALL)
    big.role._seat.close()  # its process ends
    big.role = big.joined()
    assert memory.limits == [200 - Memory.CONTEXT], "what torch may have is known to the next one"
    with pytest.raises(DeviceTooSmall, match="in 200 MB of cuda:0, which has 200 MB: make batch"):
        big.role.run(CALL)
    big.learner.act = lambda: None
    big.role.run(CALL)
    assert memory.limits[1:] == [100], "it needs less, after all"


def test_no_room_after_many_updates_is_tried_again_with_more(big: Stage) -> None:
    big.role.run(CALL)

    def fail() -> None:
        raise CannotReturn(1, "cuda:0", "taken by others")

    big.learner.act = fail
    with pytest.raises(DeviceFull, match=r"than the 120 MB .* once 200 MB are free"):
        big.role.run(CALL)


def test_an_update_that_finds_no_room_in_all_of_the_device_is_hopeless(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "pool", 100, Memory(peak_mb=80))
    stage.learner.act = lambda: (_ for _ in ()).throw(OutOfMemory("no room"))
    with stage.others, stage.pool:
        failed = guarded(lambda: stage.role.run(CALL), CALL, stage.role)
        assert isinstance(failed, Failed)
        assert failed.fatal, "another try would end the same way"
        assert "DeviceTooSmall" in failed.trace


def test_it_leaves_a_device_that_others_need_and_only_then(big: Stage) -> None:
    memory: Memory = big.learner.residency
    big.role.run(CALL)
    needy = big.others.enter("needy", "cuda:0", memory_mb=120)
    big.role.run(CALL)
    assert memory.left == [], "there is room for what it keeps and the other one"
    needy.set_memory(180)
    assert big.role.run(CALL).times.keys() == {"learn", "clear_device"}
    assert memory.left.pop() is Level.KEEP, "nobody waits, and it is back at once"
    big.learner.act = needy.ask_for_lease
    big.role.run(CALL)
    assert memory.left.pop() is Level.PARK
    assert there(big) == (200, 20)
    assert needy.holds == "cuda:0"


def test_between_updates_it_makes_room_for_who_waits_for_that_alone(big: Stage) -> None:
    memory: Memory = big.learner.residency
    assert big.role.idle() < 1, "it has left something there"
    needy = big.others.enter("needy", "cuda:0", memory_mb=121)
    big.role.run(CALL)
    big.role.idle()
    assert memory.left == [Level.KEEP], "somebody needs 1 MB more than there is, and does not wait"
    memory.left.clear()
    assert needy.ask_for_lease() is None
    big.role.idle()
    assert (memory.left, needy.take_lease()) == ([Level.TRIM], None), (
        "which frees less than it was said"
    )
    big.role.idle()
    assert memory.left == [Level.TRIM, Level.PARK]
    assert needy.take_lease() is not None
    assert big.role.idle() > 1000, "nothing is left to clear"


def test_two_that_wait_for_what_the_other_has_left_do_not_wait_for_ever(
    big: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leased, "_LISTEN_SECONDS", 0.0)
    memory: Memory = big.learner.residency
    big.role.run(CALL)
    needy = big.others.enter("needy", "cuda:0")
    needy.set_memory(150, left_mb=100)
    assert needy.ask_for_lease() is None
    lease: list[Any] = []

    def listen() -> bool:
        if found := needy.take_lease():
            lease.append(found)
            found.close()
            needy.set_memory(150)
        return False

    monkeypatch.setattr(big.role, "_stopped", listen)
    big.role.run(CALL)
    assert (len(lease), memory.left) == (1, [Level.PARK])


def test_who_waits_for_memory_says_whose_it_is_and_gives_up_at_its_deadline(
    big: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leased, "_LISTEN_SECONDS", 0.0)
    big.role.run(CALL)
    needy = big.others.enter("greedy", "cuda:0")
    needy.set_memory(0, left_mb=100)
    looks: list[str] = []

    def listen() -> bool:
        looks.extend(each for who in read_pool(big.folder, big.clock).queue for each in who.held_by)
        big.clock.advance(DEADLINE / 3)
        return False

    monkeypatch.setattr(big.role, "_stopped", listen)
    with pytest.raises(
        NoMemoryInTime, match=r"300 s waiting for 20 MB .*'greedy' .*100 MB\)"
    ) as told:
        big.role.run(CALL)
    assert len(looks) == 4, "it looked as often as it takes to wait for its deadline"
    assert big.reports == ["a device", f"20 MB on cuda:0, held by {looks[0]}"]
    assert "`artos pool`" in str(told.value)
    assert not read_pool(big.folder, big.clock).queue, "it has left the queue"
    failed = guarded(lambda: (_ for _ in ()).throw(told.value), CALL, big.role)
    assert isinstance(failed, Failed)
    assert failed.fatal, "another try would wait as long"


def test_a_wait_for_memory_that_ends_in_time_is_no_fault(
    big: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leased, "_LISTEN_SECONDS", 0.0)
    big.role.run(CALL)
    greedy = big.others.enter("greedy", "cuda:0")
    greedy.set_memory(0, left_mb=100)
    times = iter(range(3))

    def listen() -> bool:
        big.clock.advance(DEADLINE / 3)
        if next(times) == 2:
            greedy.set_memory(0)
        return False

    monkeypatch.setattr(big.role, "_stopped", listen)
    assert "wait_for_device" in big.role.run(CALL).times
    assert big.reports[-1] == ""


def test_memory_that_nobody_counts_is_not_measured(tmp_path: Path) -> None:
    memory = Memory(peak_mb=80)
    stage = Stage(tmp_path / "pool", memory=memory)
    with stage.others, stage.pool:
        stage.learner.act = stage.other.ask_for_lease
        stage.role.run(CALL)
        assert (memory.left, memory.limits) == ([], [])
        assert stage.role.idle() > 1000
