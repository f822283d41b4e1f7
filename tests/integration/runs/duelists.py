"""Two policies and their past versions; who plays finds out whether it has the weights it should.

The one weight of a version is its number.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from artos import AgentsActor, Batch, DataKey, Invoke, Past, TorchLearner, Workload
from artos.buffer.past_versions import past_of
from artos.specs.bound import Bound
from triggers import DataKeyTrigger, ObjectKeyTrigger

HISTORY, EVERY = 2, 3


class Marked(nn.Module):
    """Does the same whatever it sees, and says by which version."""

    outputs = (DataKey("mark"),)

    def __init__(self, spec: Any) -> None:
        super().__init__()
        self.mark = nn.Parameter(torch.zeros(1))

    def act(self, obs: Any, info: Any) -> Any:
        bound, count = info.bound, len(obs["observations"])
        known = {bound.version, *bound.versions.values()}
        assert known & {-1, self.mark.item()}, (known, self.mark)  # -1 before the run
        return {"actions": torch.zeros(count, dtype=torch.int64), "mark": self.mark.repeat(count)}


class Marker(TorchLearner):
    """Each update is a version."""

    publishing = "itself"
    reads = ("mark",)

    def update(self, batch: Batch, call: Invoke) -> dict[str, float]:
        marks, versions = batch.gather("mark"), batch.versions()
        np.testing.assert_array_equal(marks, np.broadcast_to(versions[..., None], marks.shape))
        self.module.mark.data += 1
        self.publish()
        return {"mark": float(marks.mean())}


class Duelist(AgentsActor):
    """Fails where a past version is not there, or another one plays; writes down which it chose."""

    def bind(self, params: Any, version: int) -> None:
        super().bind(params, version)
        bound, rival = self.bound, self.bound.versions["rival"]
        assert (bound.objects["rival/model_param"] == rival).all(), (rival, bound.objects)
        for name, of, pasts in (
            ("self", version, bound.pasts),
            ("rival", rival, bound.pasts_of["rival"]),
        ):
            wanted = past_of(of, HISTORY, EVERY)
            assert [past.version for past in pasts] == wanted, (name, of, pasts)
            for past in pasts:
                assert (past.params == past.version).all(), past
            assert self._seats[Past(name)].bound.version in (wanted or [of])

    def opponent(self, policy: str, pasts: Sequence[Bound]) -> Bound:
        chosen = super().opponent(policy, pasts)
        with Path(f"met-{self._block.spec.actor}").open("a") as file:
            print(policy, chosen.version, "of", *(past.version for past in pasts), file=file)
        return chosen


def workload(total_steps: int = 2_000, steps: int = 16, **given: Any) -> Workload:
    agents = {"agent_0": "self", "agent_1": "rival", "agent_2": Past("self"), "*": Past("rival")}
    actor = Duelist(
        "pettingzoo:guessing(agents=4)", agents, Marked, envs=8, history=HISTORY, every=EVERY
    )
    return Workload(
        name="duelists",
        actor=actor,
        learners={"self": Marker(), "rival": Marker()},
        triggers={
            "self.update": DataKeyTrigger(actor.keys("self"), size=steps),
            "rival.update": DataKeyTrigger(actor.keys("rival"), size=2 * steps),
            "actors.sample": ObjectKeyTrigger("model_param"),
        },
        actors=2, steps=steps, total_steps=total_steps, **given,
    )  # fmt: skip
