"""An algorithm whose learner fails where a row was not answered as it says.

All weights of a version are the number of that version. An answer says by which weights it was
made, and repeats what was asked, which no two rows have in common.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from counting import Bookkeeper
from counting import workload as counting

from artos import AskingActor, Inference, Workload

DISTINCT = 2**24
"""Numbers that float32 tells apart."""


class Echo:
    """Divided in two: the answer has the weights and the observation in it."""

    flat: Any = (-1.0,)

    def bind(self, flat: Any) -> None:
        self.flat = flat

    def answer(self, obs: Any, info: Any) -> Any:
        seen = obs["observations"]
        return {
            "by": np.full(len(seen), self.flat[0], np.float32),
            "values": (seen.sum(1) % DISTINCT).astype(np.float32),
        }

    def draw(self, answer: Any, info: Any) -> Any:
        actions = np.zeros(len(answer["by"]), np.int64)
        return {"actions": actions, "log_probs": answer["by"], "values": answer["values"]}

    def act(self, obs: Any, info: Any) -> Any:
        return self.draw(self.answer(obs, info), info)

    def values(self, obs: Any, info: Any) -> Any:
        return self.answer(obs, info)["values"]


class Asker(AskingActor):
    """Does without PyTorch."""

    def build_module(self, seed: int) -> Any:
        return None

    def make_policy(self, module: Any, seed: int) -> Any:
        return Echo()

    def faults(self, module: Any) -> list[str]:
        return []


class Auditor(Bookkeeper):
    """Makes a version of each update, and compares each row with its version."""

    def update(self, batch: Any, call: Any) -> dict[str, float]:
        by, seen = batch.gather("log_probs"), batch.gather("values")
        versions = batch.gather("policy_version")
        # With several parts in a row it is the oldest version that acted.
        np.testing.assert_array_equal(by.min(-1), versions)
        np.testing.assert_array_equal(seen, batch.gather("observations").sum(-1) % DISTINCT)
        found = super().update(batch, call)
        self.params += 1
        return found


def workload(
    actors: int = 2, total_steps: int = 6000, splits: int = 1, batch: int = 1, wait: float = 0.0,
    place: str = "cpu",
) -> Workload:  # fmt: skip
    base = counting(actors, total_steps)
    server = Inference(batch, wait, device=place)
    actor = Asker("counting:make", envs=splits, splits=splits, server=server)
    return replace(base, actor=actor, learner=Auditor(), name="asking")
