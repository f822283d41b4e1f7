"""Whatever draws random numbers for an actor draws others than its environments do."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import seeded_env
import torch

from artos.actors.agents import AgentsActor
from artos.actors.asking import INFERENCE, AskingActor
from artos.actors.branches import BranchingActor
from artos.actors.casting import Past
from artos.actors.context import ActorContext
from artos.actors.groups import GroupActor
from artos.actors.rollout import RolloutActor
from artos.buffer.actor_block import ActorBlock
from artos.buffer.layout import BlockSpec
from artos.buffer.shm_folder import ShmFolder
from artos.policies.build import Policy
from artos.policies.fast import TorchActor
from artos.policies.values import QNetwork
from artos.runtime.evaluating import EvaluatorRole
from artos.specs.keys import PARAMS, DataKey
from artos.system.random_streams import own_streams, streams_of

ALONE, GAME, SEED, ROWS = "seeded_env:alone", "pettingzoo:seeded_env", 7, 4
ACTORS: dict[str, Any] = {
    "rollout": lambda: RolloutActor(ALONE, envs=4),
    "of a network of torch": lambda: RolloutActor(ALONE, QNetwork, 4),
    "asking": lambda: AskingActor(ALONE, envs=4, splits=2),
    "branching": lambda: BranchingActor(ALONE, groups=2, group=2),
    "groups": lambda: GroupActor(ALONE, Policy(), 2, 2),
    "agents": lambda: AgentsActor(GAME, {"a": "one", "b": "two"}, envs=4),
    "past": lambda: AgentsActor(GAME, {"a": "self", "b": Past("self")}, envs=4, history=2),
}


def stream(of: Any) -> tuple[Any, ...]:
    """What two generators have in common only if they draw the same numbers, sooner or later."""
    if isinstance(of, np.random.Generator):
        return "PCG64", of.bit_generator.state["state"]["inc"]
    if isinstance(of, np.random.RandomState):
        return "RandomState", *of.get_state(legacy=True)[1][:4]
    if isinstance(of, random.Random):
        return "random", *of.getstate()[1][:4]
    if isinstance(of, TorchActor):
        return "torch", torch.Generator().set_state(of._state).initial_seed()
    return "torch", of.initial_seed() if isinstance(of, torch.Generator) else id(of)


def global_streams() -> list[tuple[Any, ...]]:
    return [
        stream(np.random.mtrand._rand),  # type: ignore[attr-defined]
        ("random", *random.getstate()[1][:4]),
        ("torch", torch.initial_seed()),
    ]


@contextmanager
def begun(actor: Any) -> Iterator[Any]:
    shm = ShmFolder.create("streams")
    try:
        others = [part.versions for part in actor.parts.values()][1:]
        noted = (DataKey(name, (), "int64", 1, False) for name in others)
        keys = (*actor.data_keys(), *noted)
        spec = BlockSpec(0, keys, ROWS, actor.envs, (), "wait")
        plan: Any = SimpleNamespace(
            seed=1, actors=1, objects=("weights",), layout=(), resumes=0, deadline=1.0, steps=ROWS
        )
        block = ActorBlock.create(shm.path / "block", spec)
        desks: Any = {INFERENCE: [object()] * 2} if isinstance(actor, AskingActor) else {}
        seeded_env.MADE.clear()
        own_streams(SEED)
        actor.setup(ActorContext(plan, 0, 1, block, SEED, desks=desks))
        yield actor
        actor.close()
    finally:
        shm.remove()


@pytest.mark.parametrize("kind", ACTORS)
def test_no_two_streams_of_an_actor_are_the_same(kind: str) -> None:
    with begun(ACTORS[kind]()) as actor:
        seats = getattr(actor, "_made", None) or {}
        parts = [actor, *getattr(actor, "_parts", ()), *seats.values()]
        drawing = [vars(part).get(name) for part in parts for name in ("_policy", "_random")]
        envs = [stream(each) for each in streams_of(seeded_env.MADE)]
        own = [stream(each) for each in streams_of(drawing)] + global_streams()
    assert ("torch", SEED) in envs, "the first environment has the actor's own seed"
    assert len({*own}) == len(own) > 3
    assert not {*own}.intersection(envs)


def test_a_policy_that_is_evaluated_draws_other_numbers_than_its_environment() -> None:
    actor, plan = RolloutActor(ALONE), SimpleNamespace(seed=1)
    params = np.zeros(sum(each.numel() for each in actor.build_module(1).parameters()), np.float32)
    handed: Any = SimpleNamespace(newest=SimpleNamespace(arrays={PARAMS: params}))
    role = EvaluatorRole(actor, plan, handed, lambda: None)  # type: ignore[arg-type]
    (own,) = (stream(each) for each in streams_of([role.policy(SEED)]))
    assert own != stream(np.random.default_rng(SEED))
