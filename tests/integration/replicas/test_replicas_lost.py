"""A replica is killed, or stands still, while another one waits for it in a sum of gradients."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from together import Together

from artos.buffer.gathering import Gathering
from artos.errors import ReplicaLost
from artos.protocol.invocations import Failed
from artos.runtime.replica_group import ReplicaGroup
from artos.specs.members import LEARNER, Member

pytestmark = pytest.mark.processes

PPO = {"actors": 1, "envs": 2, "steps": 16, "hidden": [16], "minibatches": 2, "epochs": 1}
FIRST, SECOND = Member(LEARNER), Member(LEARNER, 1)

Make = Callable[..., Together]


@pytest.mark.parametrize(("waits", "dies"), [(FIRST, SECOND), (SECOND, FIRST)])
def test_killed_while_the_other_one_waits(waits: Member, dies: Member, together: Make) -> None:
    """It says whom it lost; all begin again, and the call makes of the rows what it would have."""
    with together("ppo", 2, **PPO) as undisturbed:
        undisturbed.update(*undisturbed.sample())
        undisturbed.update(*undisturbed.sample())
        wanted = undisturbed.arrays
    with together("ppo", 2, **PPO) as run:
        run.update(*run.sample())
        claims = run.sample()
        run.tell(claims, waits)
        run.hosts[dies].end()
        told = run.heard(waits)
        assert isinstance(told, Failed)
        assert told.others
        assert (
            f"ReplicaLost: {dies} did not take part in a sum: its process has ended" in told.trace
        )
        assert run.node.weights.version == 1
        run.start()
        run.update(*claims)
        for name, array in wanted.items():
            np.testing.assert_array_equal(run.arrays[name], array, err_msg=name)


@pytest.mark.long
def test_one_that_stands_still_is_named(together: Make) -> None:
    with together("ppo", 2, deadline=10.0, **PPO) as run:
        pid = run.pid(SECOND)
        os.kill(pid, signal.SIGSTOP)
        run.tell(run.sample())
        told = run.heard(FIRST)
        assert isinstance(told, Failed)
        assert told.others
        assert "learner 1 did not take part in a sum: not within 9 s" in told.trace
        assert "raise --deadline" in told.trace


def test_one_that_never_comes_is_named(tmp_path: Path) -> None:
    gathering = Gathering.create(tmp_path / "gathering", 2)
    gathering.come(0, 1)
    with pytest.raises(ReplicaLost, match="meeting of the replicas: not within") as lost:
        ReplicaGroup(tmp_path, gathering, FIRST, 1, 60.0, 0.2)
    assert lost.value.lost == ("learner 1",)
