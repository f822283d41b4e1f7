"""One machine: rounds reach the learner by cursors, and weights every actor, through real roles."""

import pytest

from evaluation.baselines.processes import measure_ours
from evaluation.pipelining.recording import record

pytestmark = [pytest.mark.processes, pytest.mark.long]


@pytest.mark.parametrize("whole", [(), ("--whole",)], ids=["frames once", "whole stacks"])
def test_rounds_are_handed_over_before_they_are_gathered(tmp_path, whole):
    record(tmp_path, steps=16)
    size = ("--actors", "3", "--steps", "16", "--iterations", "2", "--recording", str(tmp_path))
    rates, versions = measure_ours("pipelining.artos_handover", *size, *whole, seconds=240)
    assert 0 < rates["cursors_s"] < rates["batch_s"]
    assert "torch" in versions


def test_every_actor_binds_what_was_published():
    size = ("--actors", "3", "--iterations", "2")
    rates, _ = measure_ours("pipelining.artos_weights", "local", *size, seconds=240)
    assert rates["first_use_s"] > 0
