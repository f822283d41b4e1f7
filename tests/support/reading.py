"""An algorithm whose actors fail where what they read is not of the version that they bound.

So they do where a past version is not there. All weights of a version, and the object ``told``, are
the number of that version.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from counting import Bookkeeper, Still, Walker
from counting import workload as counting

from artos import ObjectKey, Workload
from artos.buffer.past_versions import past_of


class Teller(Bookkeeper):
    """Publishes the number of updates as weights and beside them, and that of rows."""

    objects = (ObjectKey("told", (2,), "int64"),)
    parameters = 200_000

    def setup(self, context: Any) -> None:
        super().setup(context)
        self.publish = context.publish
        if self.publish.newest("told") is None:
            self.publish("told", [0, 0])

    def update(self, batch: Any, call: Any) -> dict[str, float]:
        metrics = super().update(batch, call)
        self.params += 1
        self.publish("told", [self.params[0], self.count[0]])
        return metrics


class Looking(Still):
    """Finds in its information what the actor reads, also where it is evaluated."""

    def act(self, obs: Any, info: Any) -> Any:
        assert info.bound.objects["told"][0] == info.bound.version >= 0
        return super().act(obs, info)


class Reader(Walker):
    """Compares what it reads with what it binds."""

    def make_policy(self, module: Any, seed: int) -> Any:
        return Looking(self.envs)

    def bind(self, params: Any, version: int) -> None:
        assert (params == version).all(), (params, version)
        assert params is self.bound.params
        wanted = past_of(version, self.history, self.every)
        assert [past.version for past in self.bound.pasts] == wanted
        for bound in (self.bound, *self.bound.pasts):
            assert (bound.params == bound.version).all(), bound
            assert bound.objects["told"][0] == bound.version, bound
        super().bind(params, version)


def workload(
    total_steps: int = 6000,
    reads: str = "told",
    evaluate_every: int = 0,
    history: int = 3,
    every: int = 2,
    past_of: str = "",
) -> Workload:
    base = counting(total_steps=total_steps)
    actor = Reader("counting:make", envs=1, reads=(reads,), history=history, every=every)
    actor.past_of = (past_of,) * bool(past_of)
    return replace(
        base, actor=actor, learner=Teller(), evaluate_every=evaluate_every, evaluation_episodes=1
    )
