"""An actor whose set-up was done ahead samples the rows of one that was set up at once."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import toys_to_prepare
from stage import HERE, Rows, Stage, plan_of, rows_here, rows_of

from artos.runtime.member import ActorRole
from artos.runtime.serving import actor_context, prepared_actor
from artos.specs.keys import MODEL_PARAM

PONG = pytest.param("PongNoFrameskip-v4", marks=pytest.mark.long)
ENVS = ["CartPole-v1", "vector:CartPole-v1", PONG]


def rows_of_prepared(env: str, actor: int, logs: Path, *, environments: bool) -> Rows:
    with Stage(env, logs) as stage:
        prepared = prepared_actor(stage.plan, environments=environments)
        context = actor_context(stage.plan, stage.site(actor))
        role = ActorRole(prepared, context, stage.node.model[MODEL_PARAM])
        return rows_of(stage, role, actor)


@pytest.mark.usefixtures("atari")
@pytest.mark.parametrize("env", ENVS)
@pytest.mark.parametrize("environments", [True, False])
def test_same_rows_prepared_or_not(env: str, environments: bool, tmp_path: Path) -> None:
    plain = rows_here(env, 1)
    assert rows_of_prepared(env, 1, tmp_path, environments=environments) == plain
    assert rows_here(env, 0) != plain  # rows depend on who the actor is at all


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Seeds of the toys made from now on; the module is found as a user's would be."""
    monkeypatch.setattr(sys, "path", [str(HERE), *sys.path])
    for name in ("plain", "seeded"):
        plan_of(f"toys_to_prepare:{name}")
    toys_to_prepare.made.clear()
    return toys_to_prepare.made


def test_what_needs_no_seed_is_made_ahead(toys: list[int]) -> None:
    actor = prepared_actor(plan_of("toys_to_prepare:plain"))
    ahead = list(toys)
    assert ahead[-2:] == [-1, -1]
    with Stage("toys_to_prepare:plain", HERE) as stage:
        actor.setup(actor_context(stage.plan, stage.site(0)))
        actor.close()
        assert toys == ahead


def test_what_needs_its_seed_waits_for_it(toys: list[int], tmp_path: Path) -> None:
    actor = prepared_actor(plan_of("toys_to_prepare:seeded"))
    toys.clear()
    with Stage("toys_to_prepare:seeded", tmp_path) as stage:
        context = actor_context(stage.plan, stage.site(1))
        actor.setup(context)
        actor.close()
    assert toys == [context.seed, context.seed + 1]


def test_prepared_environments_are_used_once(toys: list[int], tmp_path: Path) -> None:
    actor = prepared_actor(plan_of("toys_to_prepare:plain"))
    with Stage("toys_to_prepare:plain", tmp_path) as stage:
        for _ in range(2):
            toys.clear()
            actor.setup(actor_context(stage.plan, stage.site(0)))
            actor.close()
    assert toys == [-1, -1]
