"""Pipelines through the real runtime: the books are right, and updates are those without them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from hands import written
from numpy.typing import NDArray
from real_runs import Artos, checkpointed, journal

from deploy.local.run import run
from head.run.request import Request
from triggers.algorithms.pipelines import Pipeline

ACTORS, STEPS, ROUNDS = 3, 16, 8
Arrays = dict[str, NDArray[Any]]
PIPELINES: tuple[Pipeline, ...] = get_args(Pipeline)


def inline(home: Path, name: str, **settings: Any) -> tuple[Path, dict[str, Any]]:
    """A run in this process: its folder and its summary."""
    folder = home / name
    run(Request("book.py:workload", settings, 3, folder, inline=True, quiet=True, folder=home))
    return folder, json.loads((folder / "summary.json").read_text())


def settings_of(pipeline: str, **more: Any) -> list[object]:
    """The same for the command line."""
    pairs = {"pipeline": pipeline, **more}
    return [word for name, value in pairs.items() for word in ("--set", f"{name}={value}")]


def assert_books(run: Path, summary: dict[str, Any], epochs: int = 2, max_lag: int = 0) -> None:
    """Every row was part of as many gradients as there are epochs; an update is a round."""
    assert summary["steps"] == ACTORS * STEPS * ROUNDS
    assert summary["updates"] == ROUNDS
    assert summary["rows_lost"] == 0
    assert summary["lag_max"] == max_lag
    assert (written(checkpointed(run)["learner.book"], STEPS * ROUNDS) == epochs).all()
    manifest = json.loads((run / "checkpoint" / "manifest.json").read_text())
    assert (manifest["steps"], manifest["updates"]) == (ACTORS * STEPS * ROUNDS, ROUNDS)


@pytest.mark.parametrize("max_lag", [0, 1])
@pytest.mark.parametrize("pipeline", PIPELINES)
def test_every_row_is_learned_from_in_its_round(
    pipeline: Pipeline, max_lag: int, home: Path
) -> None:
    minibatches = 1 if pipeline == "full" else 3
    found = inline(home, "r", pipeline=pipeline, minibatches=minibatches, max_lag=max_lag)
    assert_books(*found, max_lag=max_lag)


def test_each_method_is_fired_for_what_it_is_for(home: Path) -> None:
    folder, _ = inline(home, "r", pipeline="dual+minibatch")
    lines = journal(folder)
    claims: dict[str, list[Any]] = {}
    for line in lines:
        if "claims" in line:
            claims.setdefault(line["trigger"], []).append(line["claims"])
    one_each = sorted(
        [[actor, start, start + STEPS]]
        for actor in range(ACTORS) for start in range(0, STEPS * ROUNDS, STEPS)
    )  # fmt: skip
    assert sorted(claims["learner.preprocess"]) == sorted(claims["learner.first_pass"]) == one_each
    assert [len(each) for each in claims["learner.update"]] == [ACTORS] * ROUNDS
    done = {line["done"] for line in lines if line.get("by") == "learner" and "lag_max" in line}
    fired = {line["firing"] for line in lines if line.get("trigger") == "learner.update"}
    assert done == fired, "lag is measured where rows are used up"


@pytest.mark.parametrize("minibatches", [1, 3])
def test_dual_stage_changes_nothing_bit_for_bit(minibatches: int, home: Path) -> None:
    """Annealing included: what is preprocessed is not progress."""
    plain, _ = inline(home, "plain", pipeline="none", minibatches=minibatches)
    dual, _ = inline(home, "dual", pipeline="dual", minibatches=minibatches)
    wanted, found = checkpointed(plain), checkpointed(dual)
    assert wanted.keys() == found.keys()
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)


def assert_close(found: Arrays, wanted: Arrays) -> None:
    for name in wanted:
        np.testing.assert_allclose(found[name], wanted[name], atol=1e-4, err_msg=name)


def test_the_full_batch_pipeline_learns_what_is_learned_without(home: Path) -> None:
    plain, _ = inline(home, "plain", pipeline="none", minibatches=1)
    full, _ = inline(home, "full", pipeline="full", minibatches=1)
    assert_close(checkpointed(full), checkpointed(plain))


def test_runs_go_on_with_another_pipeline(home: Path) -> None:
    """Nothing of a pipeline is part of a checkpoint."""
    from deploy.local.run import resume  # noqa: PLC0415

    folder, _ = inline(home, "r", pipeline="minibatch")
    more = {"total_steps": 2 * ACTORS * STEPS * ROUNDS, "pipeline": "dual+minibatch"}
    summary = resume(folder, more, quiet=True, trust=True)
    last = summary.status
    assert (last.updates, last.steps) == (2 * ROUNDS, 2 * ACTORS * STEPS * ROUNDS)
    fired = [line["trigger"] for line in journal(folder) if "trigger" in line]
    assert fired.count("learner.first_pass") == 2 * ACTORS * ROUNDS
    # Blocks begin anew with every part of a run, and so does the count of their rows.
    assert (written(checkpointed(folder)["learner.book"], STEPS * ROUNDS) == 4).all()


@pytest.mark.long
@pytest.mark.processes
@pytest.mark.parametrize("pipeline", ["dual+minibatch", "full"])
def test_in_processes_too(pipeline: Pipeline, start: Callable[..., Artos], home: Path) -> None:
    minibatches = 1 if pipeline == "full" else 3
    command = ["run", "book.py:workload", "--run-dir", home / "r", "--seed", 3, "--json"]
    outcome = start(*command, *settings_of(pipeline, minibatches=minibatches, max_lag=1)).wait()
    assert outcome.status == 0, outcome.err
    assert_books(home / "r", outcome.summary, max_lag=1)


# -- the learner dies at the worst moments ---------------------------------------------------------

DEATHS = {
    "dual": ("preprocess 0 16", "preprocess 2 48", "update 0 80"),
    "full": ("preprocess 0 16", "accumulate 2 48", "update 0 80"),
    "minibatch": ("first_pass 1 16", "first_pass 0 48", "update 0 80"),
    "dual+minibatch": ("preprocess 1 16", "first_pass 2 48", "update 0 80"),
}


@pytest.mark.long
@pytest.mark.processes
@pytest.mark.parametrize("pipeline", DEATHS)
def test_the_learner_is_killed_in_the_middle(
    pipeline: str, start: Callable[..., Artos], home: Path
) -> None:
    """Of what it had done for a version not yet published nothing is lost and nothing repeated."""
    minibatches = 1 if pipeline == "full" else 3
    (home / "deaths").write_text("\n".join(DEATHS[pipeline]))
    command = ["run", "book.py:workload", "--run-dir", home / "r", "--seed", 3, "--json"]
    outcome = start(*command, *settings_of(pipeline, minibatches=minibatches)).wait()
    assert outcome.status == 0, outcome.err
    assert (home / "deaths").read_text() == ""
    assert outcome.summary["restarts"] == len(DEATHS[pipeline])
    assert_books(home / "r", outcome.summary)
    if pipeline in ("dual", "full"):
        plain, _ = inline(home, "plain", pipeline="none", minibatches=minibatches)
        assert_close(checkpointed(home / "r"), checkpointed(plain))


@pytest.mark.long
@pytest.mark.processes
def test_killed_between_two_rounds_that_overlap(start: Callable[..., Artos], home: Path) -> None:
    """The next round's rows had their first pass before the learner died, or might have had."""
    deaths = ("first_pass 0 32", "first_pass 1 64", "first_pass 2 96")
    (home / "deaths").write_text("\n".join(deaths))
    command = ["run", "book.py:workload", "--run-dir", home / "r", "--seed", 3, "--json"]
    outcome = start(*command, *settings_of("minibatch", max_lag=1)).wait()
    assert outcome.status == 0, outcome.err
    assert outcome.summary["restarts"] == len(deaths)
    assert_books(home / "r", outcome.summary, max_lag=1)
