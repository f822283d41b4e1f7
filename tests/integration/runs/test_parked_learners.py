"""Learners whose memory is elsewhere between two invocations learn what the others learn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from placed_learners import EACH, learned

from artos.buffer.mailbox import LEARNER
from artos.levels import Level
from artos.protocol.invocations import Invoke
from deploy.local.inline import Inline
from head.run.coordination.coordinator import Coordinator


class Parking(Inline):
    """After each invocation nothing of the learner is on its device."""

    times = 0

    def _run_one(self, coordinator: Coordinator, member: int, call: Invoke) -> None:
        super()._run_one(coordinator, member, call)
        role: Any = self._roles.get(member)
        if member == LEARNER and role is not None:
            residency = role._learner.residency
            assert residency.resident_bytes > 1000
            residency.leave(Level.PARK)
            assert residency.resident_bytes == 0
            Parking.times += 1


@pytest.mark.parametrize("name", EACH)
def test_parking_changes_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Parking, "times", 0)
    plain = learned(name, tmp_path, "cpu")
    parked = learned(name, tmp_path, "cpu", Parking)
    assert Parking.times >= 2
    assert plain.arrays.keys() == parked.arrays.keys()
    for key, value in plain.arrays.items():
        np.testing.assert_array_equal(parked.arrays[key], value, err_msg=key)
