"""A learner on a device of the pool learns what it learns without; here all in one process."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from far_device import FAR, far_device
from inline_runs import finished, registered
from named import LEARNER
from placed_learners import EACH, learned

from artos.learners.residency import Residency
from artos.pool.folder import pool_folder
from artos.pool.pool import Pool
from artos.pool.resources import Resource
from artos.pool.seat import Lease, Seat
from artos.protocol.invocations import Invoke, Waits
from artos.runtime import leasable, leased, leased_memory
from artos.specs.keys import CheckpointSetting
from artos.specs.levels import Level
from artos.specs.members import Member
from deploy.local.inline import Inline
from head.run.coordination.coordinator import Coordinator

TOTAL = 1 << 30
THERE = f"{FAR}:0"


@pytest.fixture(autouse=True)
def _no_pool_is_left() -> Iterator[None]:
    yield
    assert not pool_folder().exists()


@pytest.mark.parametrize("name", EACH)
def test_alone_it_learns_what_it_learns_without(name: str, tmp_path: Path) -> None:
    plain, found = learned(name, tmp_path, "cpu"), learned(name, tmp_path, "pool")
    assert found.coordinator.monitor.restarts == 0
    assert found.coordinator.monitor.devices["learner"].name == "cpu:0"
    assert "wait_for_device" not in found.coordinator.monitor.times.seconds()
    for key, value in plain.arrays.items():
        np.testing.assert_array_equal(found.arrays[key], value, err_msg=key)


class Contended(Inline):
    """Another one has the device when an update comes, and waits for it during the update."""

    other: Seat
    lease: Lease | None
    waits: int

    def _run_one(self, coordinator: Coordinator, member: Member, call: Invoke) -> None:
        if member == LEARNER:
            Contended.lease = self.other.take_lease() or self.other.ask_for_lease()
            if self.lease is None:  # the learner was set up on the device
                role: Any = self._roles[member]
                role.idle()
                Contended.lease = self.other.take_lease()
            assert self.lease is not None
        super()._run_one(coordinator, member, call)

    def _report(self, member: Member, waits: Waits) -> None:
        super()._report(member, waits)
        if waits.what and self.lease is not None:
            Contended.waits += 1
            self.lease.close()
            assert self.other.ask_for_lease() is None


@pytest.fixture
def contended(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pool]:
    """A pool with the device and the other one, who needs all of its memory, counted in bytes."""
    monkeypatch.setattr(leased_memory, "_MB", 1)
    with Pool.join([Resource("cpu:0", memory_mb=TOTAL)]) as pool:
        other = pool.enter("o", memory_mb=TOTAL)
        Contended.other, Contended.lease, Contended.waits = other, None, 0
        yield pool


@pytest.mark.parametrize("far", [False, True], ids=["here", "far"])
@pytest.mark.parametrize("name", EACH)
def test_beside_another_one_it_leaves_the_device_and_returns(
    name: str, far: bool, contended: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, leave = list[tuple[Level, int]](), Residency.leave

    def noted(self: Residency, level: Level) -> None:
        before = self.resident_bytes
        leave(self, level)
        left.append((level, before - self.resident_bytes))

    monkeypatch.setattr(Residency, "leave", noted)
    plain = learned(name, tmp_path, "cpu")
    place: Any = nullcontext()
    if far:
        monkeypatch.setattr(leasable, "name_of", lambda resource: THERE)
        place = far_device()
    with place as operations:
        found = learned(name, tmp_path, "pool", Contended)
        assert not far or operations() > 100
    monitor = found.coordinator.monitor
    assert (monitor.restarts, monitor.devices["learner"].lost) == (0, 0)
    assert Contended.waits >= found.coordinator.progress.updates >= 2
    assert Contended.waits <= len(left) <= Contended.waits + 1, "also before the first, perhaps"
    assert all(level is Level.PARK and freed > 1000 for level, freed in left)
    assert {"wait_for_device", "clear_device"} < {
        kind.removeprefix("learner.") for kind in monitor.times.seconds()
    }
    for key, value in plain.arrays.items():
        np.testing.assert_allclose(found.arrays[key], value, rtol=1e-4, atol=1e-5, err_msg=key)


class Stopping(Inline):
    """Somebody else has the device; the run is told to stop once the learner waits for it."""

    def _report(self, member: Member, waits: Waits) -> None:
        super()._report(member, waits)
        assert waits.what, "nobody gives the device back"
        coordinator = self._coordinator
        assert coordinator is not None
        assert coordinator.waits()["learner"] == "a device"
        if not self.halt():
            coordinator.ending.drain()


@pytest.mark.parametrize("kept", ["model", "all"])
def test_a_run_that_waits_for_its_device_can_be_stopped(
    kept: CheckpointSetting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leased, "_LISTEN_SECONDS", 0.0)
    made = registered("ppo", tmp_path, total_updates=3, steps=16)
    plan = msgspec.structs.replace(made.plan, device="pool", checkpoint=kept)
    with Pool.join([Resource("cpu:0")]) as pool, pool.enter("other").lease() as lease:
        stopped = finished(dataclasses.replace(made, plan=plan), tmp_path, Stopping)
        assert not lease.wanted
    coordinator = stopped.coordinator
    assert (coordinator.progress.updates, coordinator.ending.draining) == (0, True)
    (call,) = coordinator.invocations.of(LEARNER)
    assert call.method == "update"
