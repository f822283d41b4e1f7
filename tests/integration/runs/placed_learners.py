"""Every built-in learner in its variants, each for a few updates, on a device of choice."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import msgspec
import pytest
from helpers import ROOT
from inline_runs import Finished, finished, registered
from named import LEARNER

from artos.protocol.invocations import Invoke
from artos.specs.levels import Level
from artos.specs.members import Member
from deploy.local.inline import Inline
from head.run.coordination.coordinator import Coordinator

HERE, DOCS = Path(__file__).parent, ROOT / "docs" / "examples"
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
    "appo": ("appo", ON_POLICY | {"n": 2, "normalize": True}),
    "appo-recurrent": ("appo", ON_POLICY | {"recurrent": True}),
    "trpo": ("trpo", ON_POLICY | {"env": BOX, "normalize": True}),
    "grpo": ("grpo", COMMON | {"total_updates": 2, "groups": 2, "group": 4}),
    "trpo-pictures": ("trpo", ON_POLICY | {"env": "far_envs:Pictures"}),
    "trpo-recurrent": ("trpo", ON_POLICY | {"recurrent": True}),
    "dqn": ("dqn", REPLAY | {"dueling": True, "target_every": 2}),
    "sac-discrete": ("sac", REPLAY | {"env": "CartPole-v1", "hidden": "16,16"}),
    "td3": ("td3", REPLAY | {"env": BOX, "hidden": "16,16"}),
    "ddpg": ("ddpg", REPLAY | {"env": BOX, "hidden": "16,16"}),
    "crossq": (
        "crossq",
        REPLAY | {"env": BOX, "hidden": "16,16", "critic_hidden": "16,16", "delay": 2},
    ),
    "rnd": ("rnd", ON_POLICY | {"features": 8, "novelty_hidden": "8"}),
    "d4pg": ("d4pg", REPLAY | {"env": BOX, "hidden": "16,16", "n_step": 1}),
}
LEARNERS = QUICK | MORE
EXAMPLES = (
    "my_algo.py:workload", "my_apex.py:workload", "my_dqn.py:workload", "my_pipeline.py:eager",
    "my_r2d2.py:workload", "my_recurrent.py:workload", "my_sac.py:workload",
    "my_vtrace.py:workload",
)  # fmt: skip
"""What users copy: their learners must find the device, too."""
COMPILED = tuple(
    name for name in LEARNERS if not any(no in name for no in ("recurrent", "pipeline", "grpo"))
)
"""Those that can be compiled."""
LEARNERS |= {name: (name, {"total_updates": 2}) for name in EXAMPLES}
EACH = [pytest.param(name, marks=[] if name in QUICK else pytest.mark.long) for name in LEARNERS]


def learned(
    name: str, folder: Path, device: str, members: type[Inline] = Inline, **more: Any
) -> Finished:
    """The run; it is registered for the CPU, whatever the device."""
    workload, settings = LEARNERS[name]
    made = registered(workload, DOCS if name in EXAMPLES else HERE, **settings, **more)
    plan = msgspec.structs.replace(made.plan, device=device)
    return finished(dataclasses.replace(made, plan=plan), folder, members)


class Parking(Inline):
    """After each invocation nothing of the learner is on its device."""

    times = 0

    def _run_one(self, coordinator: Coordinator, member: Member, call: Invoke) -> None:
        super()._run_one(coordinator, member, call)
        role: Any = self._roles.get(member)
        if member == LEARNER and role is not None:
            residency = role._learner.residency
            assert residency.resident_bytes > 1000
            residency.leave(Level.PARK)
            assert residency.resident_bytes == 0
            Parking.times += 1
