"""A policy is told that nobody learns from what it does."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from artos.actors.rollout import RolloutActor
from artos.policies.acting import ActInfo
from artos.specs.bound import Bound
from artos.specs.reference import Reference
from artos.trained.alone import Alone
from artos.trained.evaluation import During
from artos.trained.playing import Wanted, evaluate

ENV, PARAMS = "CartPole-v1", np.zeros(1, np.float32)


class Asked:
    """Goes on to the left, and keeps what it was told."""

    def __init__(self) -> None:
        self.told: list[bool] = []

    def bind(self, flat: Any) -> None:
        """There is nothing to bind."""

    def act(self, obs: Any, info: ActInfo) -> Any:
        self.told.append(info.learned_from)
        zero = np.zeros(1, np.float32)
        return {"actions": np.zeros(1, np.int64), "log_probs": zero, "values": zero}

    def values(self, obs: Any, info: ActInfo) -> Any:
        return np.zeros(1, np.float32)


class Player(RolloutActor):
    """Plays by a policy that is given."""

    by: Asked

    def make_policy(self, module: Any, seed: int) -> Any:
        return self.by


def test_where_it_is_evaluated() -> None:
    by = Asked()
    player: Any = SimpleNamespace(
        spec=RolloutActor(ENV).spec, environments=1, memory=(), progress=1.0, steps=1,
        bound=Bound(), policy=lambda seed: by,
    )  # fmt: skip
    evaluate(player, Wanted(1, False, 1, ENV, None, 60.0), lambda episodes, steps: None)
    assert {*by.told} == {False}


def test_where_it_is_recorded(tmp_path: Path) -> None:
    actor = Player(ENV, envs=1)
    actor.by = Asked()
    during = During(Reference("ppo"), 1.0, 1)
    alone = Alone(actor, Bound(params=PARAMS), during, 1, greedy=False, at=tmp_path / "rows")
    alone.sample()
    alone.close()
    assert {*actor.by.told} == {False}
