"""Learners whose memory is elsewhere between two invocations learn what the others learn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from placed_learners import EACH, Parking, learned


@pytest.mark.parametrize("name", EACH)
def test_parking_changes_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Parking, "times", 0)
    plain = learned(name, tmp_path, "cpu")
    parked = learned(name, tmp_path, "cpu", Parking)
    assert Parking.times >= 2
    assert plain.arrays.keys() == parked.arrays.keys()
    assert parked.coordinator.monitor.restarts == 0
    for key, value in plain.arrays.items():
        np.testing.assert_array_equal(parked.arrays[key], value, err_msg=key)
