"""Actors that ask two servers: one by the weights of a learner beside theirs, one without any.

They fail where an answer is not by the version that it says, or is not about what they asked.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from counting import Walker
from counting import workload as counting

from artos import DataKey, Learner, Server, Workload
from triggers import CountTrigger


class Grader(Learner):
    """Its weights are 1,000 more than the number of their version."""

    def setup(self, context: Any) -> None:
        self.params = np.full(3, 1000, np.float32)

    def update(self, batch: Any, call: Any) -> None:
        self.params += 1
        self.fresh = True

    def live(self) -> Any:
        return {"params": self.params}


class Marks(Server):
    """Says by which weights it answers."""

    reads_weights, of = True, "grader"

    def asks(self, actor: Any) -> Any:
        return [DataKey("seen", (2,), "int64")]

    def answers(self, actor: Any) -> Any:
        return [DataKey("by")]

    def bind(self, params: Any, version: int) -> None:
        assert (params == 1000 + version).all()
        self.by = params[0]

    def answer(self, asked: Any) -> Any:
        return {"by": np.full(len(asked["seen"]), self.by, np.float32)}


class Judge(Server):
    """Repeats what it was asked about."""

    def asks(self, actor: Any) -> Any:
        return [DataKey("seen", (2,), "int64")]

    def answers(self, actor: Any) -> Any:
        return [DataKey("again", (2,), "int64")]

    def answer(self, asked: Any) -> Any:
        return {"again": asked["seen"].copy()}


class Marked(Walker):
    """Asks both once a round."""

    def setup(self, context: Any) -> None:
        super().setup(context)
        (self.marks,), (self.judge,) = context.desks["marks"], context.desks["judge"]

    def sample(self, start: int, rows: int, call: Any) -> Any:
        seen = self._observations["observations"]
        found = self.marks(seen=seen)
        assert found["by"].tolist() == [1000 + self.marks.version]
        assert self.marks.version >= 0
        np.testing.assert_array_equal(self.judge(seen=seen)["again"], seen)
        return super().sample(start, rows, call)


def workload(total_steps: int = 640) -> Workload:
    base = counting(total_steps=total_steps)
    return replace(
        base,
        name="graded",
        actor=Marked("counting:make", envs=1),
        servers={"marks": Marks(), "judge": Judge()},
        learners={"grader": Grader()},
        triggers={**base.triggers, "grader.update": CountTrigger(rows=64)},
    )
