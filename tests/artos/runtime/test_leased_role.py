"""A learner that leases its device for each update: when it waits, what it says, what it frees."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from artos.clock import ManualClock
from artos.levels import Cost, Level
from artos.pool.pool import Pool
from artos.pool.resources import Resource
from artos.pool.seat import Seat
from artos.pool.table import Table
from artos.pool.view import look
from artos.protocol.invocations import Done, Invoke, Waits
from artos.runtime import leased
from artos.runtime.leased import LeasedRole
from artos.runtime.member import Stopped

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

    def close(self) -> None:
        """Nothing."""


class Memory:
    """A residency that notes to which level it was left, and a device that notes its limit."""

    def __init__(self, peak_mb: int) -> None:
        self.peak_mb, self.left, self.limits = peak_mb, list[Level](), list[int]()
        self.costs = {Level.TRIM: Cost(1 << 20, 0.001), Level.PARK: Cost(90 << 20, 0.01)}
        self.device = SimpleNamespace(
            context_bytes=20 << 20,
            peak_bytes=lambda: self.peak_mb << 20,
            limit=lambda size: self.limits.append(size >> 20),
        )
        self.leave = self.left.append


class Stage:
    """A learner in the pool, and another seat for the same device."""

    def __init__(self, folder: Path, memory_mb: int = 0) -> None:
        self.clock, self.folder = ManualClock(1000.0), folder
        join = partial(Pool.join, folder=folder, clock=self.clock)
        resource = Resource("cuda:0", memory_mb=memory_mb)
        self.pool, self.others = join([resource]), join()
        self.other: Seat = self.others.enter("other", "cuda:0")
        self.learner, self.reports, self.stopped = Learner(), list[str](), False
        enter = partial(self.pool.enter, "mine")
        self.role = LeasedRole(
            self.learner, self.pool, enter(["cuda:0"]), enter, DEADLINE, self._heard,
            lambda: self.stopped,
        )  # type: ignore[arg-type]  # fmt: skip
        self.on_report: Callable[[], object] = lambda: None

    def _heard(self, waits: Waits) -> None:
        self.reports.append(waits.what)
        if waits.what:
            self.on_report()

    def left_seconds(self) -> float | None:
        """How long the learner's present lease is to be respected."""
        (holder,) = look(self.folder, self.clock).holders
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
    assert stage.other.ask() is not None, "it was given back after the update"
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
        assert stage.other.ask() is None
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


def test_after_the_first_update_its_memory_is_known_and_limited(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "pool", memory_mb=BIG)
    with stage.others, stage.pool:
        memory = stage.learner.residency = Memory(peak_mb=80)
        stage.role.run(CALL)
        assert (memory.limits, memory.left) == ([100], [])
        assert stage.pool.lacking_mb("cuda:0") == 0
        needy = stage.others.enter("needy", "cuda:0", memory_mb=81)
        assert stage.pool.lacking_mb("cuda:0") == 100 + 20 + 81 - BIG
        needy.close()
        stage.role.run(CALL)
        assert (memory.limits, memory.left) == ([100], []), "it is measured once"


def test_it_leaves_a_device_that_others_need_and_only_then(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "pool", memory_mb=BIG)
    with stage.others, stage.pool:
        memory = stage.learner.residency = Memory(peak_mb=80)
        stage.role.run(CALL)
        stage.others.enter("needy", "cuda:0", memory_mb=100)
        assert stage.role.run(CALL).times.keys() == {"learn", "clear_device"}
        assert memory.left.pop() is Level.KEEP, "nobody waits, and it is back at once"
        stage.learner.act = stage.other.ask
        stage.role.run(CALL)
        assert memory.left.pop() is Level.PARK
        assert stage.other.holds == "cuda:0"


def test_memory_that_nobody_counts_is_not_measured(stage: Stage) -> None:
    memory = stage.learner.residency = Memory(peak_mb=80)
    stage.learner.act = stage.other.ask
    stage.role.run(CALL)
    assert (memory.left, memory.limits) == ([], [])
