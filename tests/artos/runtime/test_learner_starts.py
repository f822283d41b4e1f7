"""A learner that is started again draws other rows than it drew before; replicas draw alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from inline_runs import registered
from named import LEARNER

from artos.runs.run_memory import RunMemory
from artos.runtime.serving import learner_role


def test_a_learner_that_is_started_again_draws_other_rows(tmp_path: Path) -> None:
    plan = registered("dqn", tmp_path, env="CartPole-v1", hidden=[4]).plan
    with RunMemory(plan, "starts", tmp_path) as node:
        site = msgspec.structs.replace(node.site, member=LEARNER)

        def drawn() -> float:
            role: Any = learner_role(plan, site, node.model)
            (sampler,) = role._samplers.values()
            return float(sampler._rng.random())

        first, of_a_replica = drawn(), drawn()
        assert node.weights.version == 0
        assert first == of_a_replica, "whichever of them published the first version"
        found = [first]
        for _ in range(2):
            node.weights.publish({}, 1)
            found += [drawn()]
            assert drawn() == found[-1], "so does a replay, which goes on from that version"
        assert len({*found}) == 3
