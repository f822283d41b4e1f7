"""A policy looks ahead: episodes are continued while it decides, and nothing is changed by that."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from artos import DataKey
from artos.actors.context import ActorContext
from artos.actors.rollout import RolloutActor
from artos.buffer.actor_block import ActorBlock
from artos.buffer.layout import BlockSpec
from artos.buffer.shm_folder import ShmFolder
from artos.errors import NotBranched
from artos.protocol.invocations import Invoke
from artos.specs.bound import Bound
from artos.system.snapshot import pickled, put_back, taken, unpickled

ENVS, ROWS = 2, 60


class Random(nn.Module):
    """Acts at random, by torch's streams, and counts its steps since an episode began."""

    outputs = ("log_probs",)
    state = (DataKey("count"),)

    def __init__(self, spec: Any) -> None:
        super().__init__()
        self.layer = nn.Linear(1, 1)

    def act(self, obs: dict[str, torch.Tensor], info: Any) -> dict[str, torch.Tensor]:
        self.look_ahead(info)
        seen = obs["observations"]
        actions = torch.randint(2, (len(seen),))
        return {"actions": actions, "log_probs": seen.sum(1), "count": info.state["count"] + 1}

    def look_ahead(self, info: Any) -> None:
        """Does not."""


class Looking(Random):
    found: list[Any] = []  # noqa: RUF012

    def look_ahead(self, info: Any) -> None:
        if info.branch is not None:
            self.found.append(info.branch(3, env=1))


class Deep(Random):
    def look_ahead(self, info: Any) -> None:
        if info.branch is not None:
            info.branch(2, first=(0,))


class Unkept:
    """A bound policy that does not say what it keeps."""

    def act(self, obs: Any, info: Any) -> Any:
        return {"actions": np.zeros(ENVS, np.int64)}


def sampled(
    policy: type[Random], folder: Path, env: str = "CartPole-v1", **more: Any
) -> dict[str, Any]:
    """Rows of an actor, and the returns that it reports."""
    with begun(policy, folder, env, **more) as (actor, block):
        actor.sample(0, ROWS, Invoke(1, "actors.sample", "sample"))
        found: dict[str, Any] = {name: array.tolist() for name, array in block.arrays.items()}
        return found | {"episodes": actor.episodes()}


@contextmanager
def begun(
    policy: type[Random], folder: Path, env: str = "CartPole-v1", seed: int = 0,
    learned_from: bool = True, **more: Any,
) -> Iterator[tuple[RolloutActor, ActorBlock]]:  # fmt: skip
    actor = RolloutActor(env, policy, ENVS, **more)
    keys = tuple(actor.data_keys())
    shm = ShmFolder.create(folder.name)
    try:
        block = ActorBlock.create(shm.path / "block", BlockSpec(0, keys, ROWS, ENVS, (), "wait"))
        plan: Any = SimpleNamespace(seed=0, actors=1)
        actor.setup(ActorContext(plan, 0, 0, block, seed, learned_from=learned_from))
        actor.bind(np.zeros(2, np.float32), 0)
        yield actor, block
        actor.close()
    finally:
        shm.remove()


def test_what_is_sampled_is_the_same_with_and_without(tmp_path: Path) -> None:
    Looking.found.clear()
    assert sampled(Looking, tmp_path / "a") == sampled(Random, tmp_path / "b")
    assert len(Looking.found) == ROWS
    assert all(
        played.ended and played.total == played.steps > 0 for k in Looking.found for played in k
    )
    assert sum(len({played.steps for played in k}) > 1 for k in Looking.found) > ROWS // 2


def test_episodes_end_while_others_are_looked_ahead(tmp_path: Path) -> None:
    """Where an episode has just ended, its last observation is acted on, and nothing is left."""
    Looking.found.clear()
    rows, without = (
        sampled(policy, tmp_path / policy.__name__, final_observations=True)
        for policy in (Looking, Random)
    )
    assert rows == without
    over = [not valid[1] for valid in rows["valid"]]
    assert 0 < sum(over) < sum(not valid for row in rows["valid"] for valid in row)
    assert [played[0].steps == 0 for played in Looking.found] == over
    assert all(each.ended for played in Looking.found for each in played)


def test_nothing_is_looked_ahead_where_nothing_is_learned(tmp_path: Path) -> None:
    Looking.found.clear()
    sampled(Looking, tmp_path, learned_from=False)
    assert Looking.found == []


def test_another_process_continues_as_this_one_would(tmp_path: Path) -> None:
    with (
        begun(Random, tmp_path / "a") as (before, _),
        begun(Random, tmp_path, seed=1) as (after, _),
    ):
        before.continued(2)
        put_back(after, unpickled(pickled(taken(before))))
        assert before.continued(8) == after.continued(8)


def test_an_action_may_be_tried_first(tmp_path: Path) -> None:
    class Climbing(Random):
        def act(self, obs: dict[str, torch.Tensor], info: Any) -> dict[str, torch.Tensor]:
            found = super().act(obs, info)
            if info.branch is not None:
                tried = info.branch(3, steps=1, first=(0, 1, 2))
                found["actions"][0] = int(np.argmax([each.total for each in tried]))
            return found

    rows = sampled(Climbing, tmp_path, "stairs_env:stairs")
    assert {row[0] for row in rows["actions"]} == {1}
    assert {row[0] for row in rows["rewards"]} == {1.0}


def test_a_past_version_may_play_on(tmp_path: Path) -> None:
    class Nostalgic(Random):
        acted: list[tuple[int, int, float]] = []  # noqa: RUF012

        def look_ahead(self, info: Any) -> None:
            if info.branch is None:
                version, before = info.bound.version, info.bound.past(1).version
                self.acted.append((version, before, float(self.layer.bias)))
            else:
                info.branch(1, steps=1, past=1)

    def bound(version: int) -> Bound:
        return Bound(version, np.full(2, version, np.float32))

    rows = []
    for policy in (Nostalgic, Random):
        with begun(policy, tmp_path / policy.__name__) as (actor, block):
            actor.bound = replace(bound(5), pasts=(bound(4), bound(2)), history=2)
            actor.bind(actor.bound.params, 5)  # type: ignore[arg-type]
            actor.sample(0, 3, Invoke(1, "actors.sample", "sample"))
            actor.sample(3, ROWS - 3, Invoke(2, "actors.sample", "sample"))
            rows.append({name: array.tolist() for name, array in block.arrays.items()})
            module: Any = actor._policy.module  # type: ignore[attr-defined]
            assert module.layer.bias.tolist() == [5.0]
            assert actor._info.bound is actor.bound
            with pytest.raises(ValueError, match=r"past\(3\): the actor has history=2"):
                actor.continued(1, past=3)
    assert rows[0] == rows[1]
    assert Nostalgic.acted == [(4, 2, 4.0)] * ROWS


def test_what_an_environment_draws_is_drawn_anew_in_each_continuation(tmp_path: Path) -> None:
    class Steady(Looking):
        def act(self, obs: dict[str, torch.Tensor], info: Any) -> dict[str, torch.Tensor]:
            found = super().act(obs, info)
            return found | {"actions": torch.ones_like(found["actions"])}

    Looking.found.clear()
    rows = sampled(Steady, tmp_path, "stairs_env:slippery")
    first = [played.total for played in Looking.found[0]]
    future = sum(row[1] for row in rows["rewards"][:9])
    assert len({*first, future}) == 4


def test_why_it_cannot_be_is_said(tmp_path: Path) -> None:
    with begun(Random, tmp_path / "c", "stairs_env:stairs") as (actor, _):
        actor._policy = Unkept()  # type: ignore[assignment]
        with pytest.raises(NotBranched, match="let its class name in `kept` what changes"):
            actor.continued(2)
    with pytest.raises(NotBranched, match="1 first actions are given for 2"):
        sampled(Deep, tmp_path / "a")
    with pytest.raises(NotBranched, match=r"clone_state\(\)"):
        sampled(Looking, tmp_path / "b", "stairs_env:uncloned")
