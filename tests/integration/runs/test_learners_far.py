"""Every built-in learner on a device that is strict about the host, next to the same on the CPU."""

from __future__ import annotations

import dataclasses
import pickle
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from far_device import FAR, far_device
from inline_runs import Finished, finished, registered

from artos.buffer.mailbox import LEARNER
from artos.protocol.invocations import Invoke
from artos.runtime.member import Role
from deploy.local.inline import Inline
from head.run.coordination.coordinator import Coordinator

HERE = Path(__file__).parent
COMMON = {"total_steps": 0, "actors": 2, "evaluate_every": 0}
REPLAY = COMMON | {"total_updates": 6, "batch": 16, "after": 64, "sync": 2, "normalize": True}
ON_POLICY = COMMON | {"total_updates": 2, "steps": 16}
BOX = "Pendulum-v1"
QUICK: dict[str, tuple[str, dict[str, Any]]] = {
    "ppo-continuous": ("ppo", ON_POLICY | {"env": BOX, "normalize": True, "epochs": 2}),
    "impala": ("impala", ON_POLICY),
    "dqn-prioritised": ("dqn", REPLAY | {"replay": "prioritised", "target_every": 2}),
    "sac": ("sac", REPLAY | {"env": BOX, "hidden": "16,16"}),
}
MORE: dict[str, tuple[str, dict[str, Any]]] = {
    "ppo": ("ppo", ON_POLICY),
    "ppo-recurrent": ("ppo", ON_POLICY | {"recurrent": True, "minibatches": 2}),
    "ppo-pipeline": ("ppo", ON_POLICY | {"pipeline": "full", "minibatches": 1}),
    "ppo-noise": ("ppo", ON_POLICY | {"actors": "noise_scale:2..2"}),
    "ppo-pictures": ("ppo", ON_POLICY | {"env": "far_envs:Pictures", "minibatches": 2}),
    "a2c": ("a2c", ON_POLICY | {"normalize": True}),
    "impala-recurrent": ("impala", ON_POLICY | {"recurrent": True, "normalize": True}),
    "dqn": ("dqn", REPLAY | {"dueling": True, "target_every": 2}),
    "sac-discrete": ("sac", REPLAY | {"env": "CartPole-v1", "hidden": "16,16"}),
    "td3": ("td3", REPLAY | {"env": BOX, "hidden": "16,16"}),
}
LEARNERS = QUICK | MORE


class Resuming(Inline):
    """After each invocation the learner goes on from a snapshot of itself."""

    def _run_one(self, coordinator: Coordinator, member: int, call: Invoke) -> None:
        super()._run_one(coordinator, member, call)
        role: Role | None = self._roles.get(member)
        if member == LEARNER and role is not None:
            role.go_on(pickle.loads(pickle.dumps(role.snapshot())))


def learned(name: str, folder: Path, device: str) -> Finished:
    workload, settings = LEARNERS[name]
    made = registered(workload, HERE, **settings)
    plan = msgspec.structs.replace(made.plan, device=device)
    return finished(dataclasses.replace(made, plan=plan), folder, Resuming)


@pytest.mark.parametrize(
    "name", [*QUICK, *(pytest.param(name, marks=pytest.mark.long) for name in MORE)]
)
def test_a_learner_keeps_to_its_device(name: str, tmp_path: Path) -> None:
    here = learned(name, tmp_path, "cpu")
    with far_device() as operations:
        there = learned(name, tmp_path, FAR)
        assert operations() > 100
    for key, value in here.arrays.items():
        np.testing.assert_allclose(there.arrays[key], value, rtol=1e-4, atol=1e-5, err_msg=key)
