"""Pipelines as rows of a table: verified, explained, and with a number of actors that changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from inline_runs import finished
from schedules import registered

from artos.runs.plan import Plan
from artos.specs.actor_count import Schedule
from triggers import DataKeyTrigger, ObjectKeyTrigger, TimeTrigger
from triggers.algorithms.pipelines import Pipeline, stages
from triggers.explain import explain
from triggers.journal import read
from triggers.table import Table
from triggers.verify.verifier import faults
from triggers.wiring import completed

TARGETS = {
    "none": ["learner.update"],
    "dual": ["transfer", "learner.preprocess", "learner.update"],
    "minibatch": ["learner.first_pass", "learner.update"],
    "dual+minibatch": ["transfer", "learner.preprocess", "learner.first_pass", "learner.update"],
    "full": ["transfer", "learner.preprocess", "learner.accumulate", "learner.update"],
}


def test_every_pipeline_is_known() -> None:
    assert tuple(TARGETS) == get_args(Pipeline)


@pytest.mark.parametrize("pipeline", TARGETS)
def test_a_pipeline_is_a_table_that_can_be_explained(pipeline: str, tmp_path: Path) -> None:
    found = registered(tmp_path, pipeline=pipeline)
    assert list(found.table) == [*TARGETS[pipeline], "actors.sample"]
    text = explain(found.plan, found.table)
    for target in found.table:
        assert text.count(f"{target} ") >= 2, "in the table and in the drawing"
    early = len(found.plan.consumers) > 1
    assert ("publish a version on learner.update" in text) == early
    assert max(map(len, text.splitlines())) <= 100


def test_the_stages_are_what_advantages_need_and_the_rest() -> None:
    keys = ("observations.a", "observations.b", "actions", "rewards", "terminations", "ages",
            "truncations", "valid", "log_probs", "values", "bootstraps")  # fmt: skip
    first, second = stages(keys)
    assert set(first) | set(second) == set(keys)
    assert second == ("observations.a", "observations.b", "actions", "ages")


@pytest.mark.parametrize("pipeline", ["dual", "full"])
@pytest.mark.parametrize("lag", [0, 1])
def test_a_number_of_actors_that_changes(pipeline: str, lag: int, tmp_path: Path) -> None:
    rounds = [1, 1, 3, 3, 3, 2, 2, 2]
    batches = [1] * lag + rounds[: len(rounds) - lag]
    settings = {"actors": "0:1,2:3,5:2", "max_lag": lag, "envs": 1, "pipeline": pipeline}
    registration = registered(tmp_path, **settings, total_steps=16 * sum(batches))
    found = finished(registration, tmp_path)
    coordinator, lines = found.coordinator, [*read(found.journal)]
    handed = [line["claims"] for line in lines if line.get("trigger") == "learner.update"]
    assert [len(claims) for claims in handed] == batches
    assert coordinator.progress.updates == len(batches)
    assert (coordinator.monitor.rows_lost, coordinator.monitor.rows_stale) == (0, 0)
    assert coordinator.progress.consumed == coordinator.steps == 16 * sum(batches)


# -- faults ----------------------------------------------------------------------------------------

KEYS = ("observations", "rewards")


@pytest.fixture(scope="module")
def draft(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """A plan of three actors whose learner has non-publishing methods."""
    return registered(tmp_path_factory.mktemp("user"), pipeline="dual").plan


def found_in(draft: Plan, table: Table, **changes: Any) -> list[str]:
    table = {**table, "actors.sample": ObjectKeyTrigger()}
    plan = msgspec.structs.replace(draft, **{"consumers": (), "capacity": 0} | changes)
    return faults(*completed(plan, table))


UPDATE, EVERY_SECOND = DataKeyTrigger(KEYS, size=16), TimeTrigger(1)
FAULTY: dict[str, tuple[Table, dict[str, Any], str]] = {
    "nothing publishes": (
        {"learner.first_pass": UPDATE}, {}, "nothing fires a method that publishes",
    ),
    "a crash would lose rows": (
        {"learner.first_pass": DataKeyTrigger(KEYS, n=1, size=16), "learner.update": EVERY_SECOND},
        {}, "let a target that publishes claim these rows too",
    ),
    "max_lag counts versions": (
        {"learner.preprocess": DataKeyTrigger(KEYS, size=16, max_lag=1), "learner.update": UPDATE},
        {}, "'learner.preprocess']: publishes nothing",
    ),
    "non_publishing about nothing": (
        {"learner.update": UPDATE}, {"non_publishing": ("perprocess",)},
        "non_publishing names 'perprocess', but the learner has no such method: did you mean "
        "preprocess",
    ),
    "helpers feed no versions": (
        {
            "learner.preprocess": DataKeyTrigger(KEYS, n=1, size=16),
            "learner.update": DataKeyTrigger(KEYS, size=32, max_lag=1),
        },
        {}, "a cycle that waits for itself",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTY)
def test_faults_of_pipelines(name: str, draft: Plan) -> None:
    table, changes, words = FAULTY[name]
    found = found_in(draft, table, **changes)
    assert any(words in fault for fault in found), found


def test_a_sound_one_has_none(draft: Plan) -> None:
    table: Table = {
        "learner.preprocess": DataKeyTrigger(("rewards",), n=1, size=16), "learner.update": UPDATE,
    }  # fmt: skip
    assert found_in(draft, table) == []
    assert found_in(draft, table, scaling=Schedule({0: 1, 3: 3})) == []
