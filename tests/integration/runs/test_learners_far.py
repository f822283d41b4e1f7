"""Every built-in learner on a device that is strict about the host, next to the same on the CPU."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from far_device import FAR, far_device
from named import LEARNER
from placed_learners import EACH, learned

from artos.protocol.invocations import Invoke
from artos.runtime.member import Role
from artos.specs.members import Member
from deploy.local.inline import Inline
from head.run.coordination.coordinator import Coordinator


class Resuming(Inline):
    """After each invocation the learner goes on from a snapshot of itself."""

    def _run_one(self, coordinator: Coordinator, member: Member, call: Invoke) -> None:
        super()._run_one(coordinator, member, call)
        role: Role | None = self._roles.get(member)
        if member == LEARNER and role is not None:
            role.go_on(pickle.loads(pickle.dumps(role.snapshot())))


@pytest.mark.parametrize("name", EACH)
def test_a_learner_keeps_to_its_device(name: str, tmp_path: Path) -> None:
    here = learned(name, tmp_path, "cpu")
    with far_device() as operations:
        there = learned(name, tmp_path, FAR, Resuming)
        assert operations() > 100
    assert there.coordinator.monitor.restarts == 0
    for key, value in here.arrays.items():
        np.testing.assert_allclose(there.arrays[key], value, rtol=1e-4, atol=1e-5, err_msg=key)
