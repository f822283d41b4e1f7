"""Evaluations of real runs: beside the training, outside its books, as `artos eval` finds them."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from inline_runs import finished, registered
from named import EVALUATOR
from real_runs import TINY, Artos, Outcome, updates

import artos as library
from artos.errors import CheckpointFault, Refused
from deploy.cli.__main__ import main
from deploy.local.run import run
from head.records.status import Summary
from head.run.concerns.evaluation import Evaluation
from head.run.request import Request

Start = Callable[..., Artos]
Run = Callable[..., Outcome]
FEW = ("--set", "evaluate_every=4", "--set", "evaluation_episodes=5")
SMALL: dict[str, Any] = {"actors": 2, "envs": 2, "steps": 8, "minibatches": 2, "epochs": 1}


def versions(summary: dict[str, Any]) -> list[int]:
    return [each["version"] for each in summary["evaluation"]]


def rows(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


@pytest.mark.processes
def test_a_real_run_is_evaluated_from_the_first_version_to_the_last(artos: Run, home: Path) -> None:
    folder = home / "run"
    outcome = artos("run", "ppo", *TINY, *FEW, "--total-steps", 320, "--run-dir", folder, "--json")
    assert outcome.status == 0, outcome.err
    summary = outcome.summary
    found = versions(summary)
    assert (found[0], found[-1]) == (0, 10)
    assert set(found) <= {0, 4, 8, 10}
    assert len(found) + summary["evaluations_skipped"] == 4
    assert (summary["steps"], summary["updates"]) == (320, 10), "evaluations are not in the books"
    assert summary["episodes"] == len(rows(folder / "episodes.csv"))
    for entry in summary["evaluation"]:
        assert (entry["updates"], entry["steps"]) == (entry["version"], 32 * entry["version"])
        assert entry["episodes"] == 5
    assert [int(row["version"]) for row in rows(folder / "evaluations.csv")] == found
    last = summary["evaluation"][-1]
    progress = rows(folder / "progress.csv")[-1]
    assert float(progress["evaluation/mean_return"]) == pytest.approx(last["mean_return"], rel=1e-5)
    assert summary["times_by_member"]["evaluator"]["work"] > 0
    again = library.load(folder).evaluate(5)
    assert (again.mean_return, again.std) == pytest.approx((last["mean_return"], last["std"]))


@pytest.mark.long
@pytest.mark.processes
def test_a_killed_evaluator_plays_its_version_anew_and_nobody_waits(
    start: Start, home: Path
) -> None:
    (home / "hold").touch()
    folder, env = home / "run", ("--env", "toys_to_run:Held")
    one = start(
        "run", "ppo", *env, *TINY, *FEW, "--total-steps", 320, "--run-dir", folder, "--json"
    )
    one.until(lambda: (home / "held").exists() and updates(folder) == 10)
    one.kill(EVALUATOR)  # the run's end waits for it
    (home / "hold").unlink()
    outcome = one.wait()
    assert outcome.status == 0, outcome.err
    summary = outcome.summary
    assert versions(summary) == [0, 10]
    assert summary["evaluations_skipped"] == 2
    assert (summary["restarts"], summary["steps"]) == (1, 320)
    assert not one.survivors()


@pytest.mark.long
@pytest.mark.processes
def test_an_environment_that_fails_when_evaluated_is_told(artos: Run, home: Path) -> None:
    folder, env = home / "run", ("--env", "toys_to_run:Evaluated")
    outcome = artos("run", "ppo", *env, *TINY, *FEW, "--total-steps", 320, "--run-dir", folder)
    assert outcome.status == 0, outcome.err
    assert "there are no more evaluations" in outcome.err
    assert "given up: RuntimeError: nobody may watch" in outcome.err
    summary = artos("run", "--resume", folder, "--json", "--total-steps", 640).summary
    assert (summary["steps"], summary["evaluation"]) == (640, [])
    assert summary["evaluations_failed"].rstrip().endswith("RuntimeError: nobody may watch")


@pytest.mark.long
@pytest.mark.processes
def test_a_resumed_run_keeps_its_evaluations(artos: Run, home: Path) -> None:
    folder = home / "run"
    first = artos("run", "ppo", *TINY, *FEW, "--total-steps", 320, "--run-dir", folder, "--json")
    assert first.status == 0, first.err
    second = artos("run", "--resume", folder, "--total-steps", 640, "--json")
    assert second.status == 0, second.err
    before, after = first.summary["evaluation"], second.summary["evaluation"]
    assert after[: len(before)] == before
    assert versions(second.summary) == sorted({*versions(second.summary)})
    assert set(versions(second.summary)[len(before) :]) <= {12, 16, 20}
    assert after[-1]["version"] == 20
    assert len(rows(folder / "evaluations.csv")) == len(after)


def inline(algorithm: str, folder: Path, **settings: Any) -> Summary:
    wanted = {"evaluate_every": 3, "evaluation_episodes": 3} | settings
    return run(
        Request(algorithm, wanted, seed=5, inline=True, quiet=True, folder=folder, run_dir=folder)
    )


@pytest.mark.parametrize(
    ("algorithm", "settings"),
    [
        ("ppo", SMALL),
        ("ppo", SMALL | {"normalize": True}),
        ("ppo", SMALL | {"recurrent": True}),
        ("a2c", {"steps": 8}),
        ("impala", {"steps": 8}),
        ("trpo", {"steps": 8}),
        ("appo", {"steps": 8}),
        ("dqn", {"after": 32, "batch": 16, "ratio": 1.0}),
        ("sac", {"env": "Pendulum-v1", "after": 32, "batch": 16, "ratio": 1.0}),
        ("td3", {"env": "Pendulum-v1", "after": 32, "batch": 16, "ratio": 1.0}),
        ("ddpg", {"env": "Pendulum-v1", "after": 32, "batch": 16, "ratio": 1.0}),
        ("d4pg", {"env": "Pendulum-v1", "after": 32, "batch": 16, "ratio": 1.0}),
        ("grpo", {"groups": 1, "group": 2, "width": 16}),
    ],
    ids=[
        "ppo",
        "normalize",
        "recurrent",
        "a2c",
        "impala",
        "trpo",
        "appo",
        "dqn",
        "sac",
        "td3",
        "ddpg",
        "d4pg",
        "grpo",
    ],
)
def test_the_last_one_is_what_the_saved_policy_plays(
    algorithm: str, settings: dict[str, Any], tmp_path: Path
) -> None:
    summary = inline(algorithm, tmp_path / "run", total_steps=160, **settings)
    last = summary.evaluation[-1]
    assert summary.evaluation[0].version == 0
    assert last.version == summary.status.version > 0
    assert 0 < last.updates <= summary.status.updates, "those of this version"
    again = library.load(tmp_path / "run").evaluate(3)
    assert (last.mean_return, last.std) == pytest.approx((again.mean_return, again.std))
    assert last.mean_length == pytest.approx(np.mean(again.lengths))
    assert summary.best == max(summary.evaluation, key=lambda each: each.mean_return)
    assert summary.best is not None
    best = library.load(tmp_path / "run", best=True)
    assert best.evaluate(3).mean_return == pytest.approx(summary.best.mean_return)


def test_the_best_one_is_kept_played_and_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    summary = inline("ppo", folder, total_steps=640, evaluate_every=1, lr=0.05, **SMALL)
    best, last = summary.best, summary.evaluation[-1]
    assert best is not None
    assert best.mean_return > last.mean_return, "this step size forgets"
    line = summary.last_line(folder)
    assert f"evaluated {last.mean_return:.4g} at version {last.version}, at best" in line
    assert f"{best.mean_return:.4g} at version {best.version}: " in line
    capsys.readouterr()
    words = ("eval", str(folder), "--greedy", "--episodes", "3", "--json")
    found = []
    for flags in ([], ["--best"]):
        assert main([*words, *flags]) == 0
        found.append(json.loads(capsys.readouterr().out)["mean_return"])
    assert found == pytest.approx([last.mean_return, best.mean_return])
    longer = ("--total-steps", str(summary.status.steps + 64), "--set", "lr=1e-9", "--json")
    assert main(["run", "--resume", str(folder), *longer]) == 0
    later = json.loads(capsys.readouterr().out)
    assert later["evaluation"][-1]["version"] > last.version
    assert later["best"]["version"] == best.version, "what follows is no better"


def test_without_evaluations_there_is_no_best_one(tmp_path: Path) -> None:
    inline("ppo", tmp_path / "run", total_steps=32, **SMALL | {"evaluate_every": 0})
    with pytest.raises(CheckpointFault, match=r"no version is kept.*--set evaluate_every=N"):
        library.load(tmp_path / "run", best=True)


@pytest.mark.parametrize("algorithm", ["ppo", "dqn"])
def test_in_one_process_training_is_the_same_with_and_without(
    algorithm: str, tmp_path: Path
) -> None:
    small = SMALL if algorithm == "ppo" else {"after": 32, "batch": 16, "ratio": 1.0}
    ends = [
        finished(registered(algorithm, tmp_path, **small, **more, total_steps=160), tmp_path)
        for more in ({}, {"evaluate_every": 1}, {"evaluate_every": 1})
    ]
    for end in ends[1:]:
        for name, array in ends[0].arrays.items():
            np.testing.assert_array_equal(end.arrays[name], array, name)
    one, two = (
        [(each.version, each.steps, each.mean_return) for each in found]
        for found in (end.coordinator.concern(Evaluation).found for end in ends[1:])
    )
    assert one == two
    assert [version for version, _, _ in one] == list(range(len(one)))
    assert ends[0].coordinator.concern(Evaluation).found == []


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"evaluate_every": -1}, "evaluate_every must not be negative, but is -1"),
        ({"evaluation_episodes": 0}, "evaluation_episodes must be within 1 and 1000, not 0"),
        ({"evaluation_episodes": 1001}, "evaluation_episodes must be within 1 and 1000, not 1001"),
        ({"evaluate_evry": 3}, "unknown setting 'evaluate_evry': did you mean evaluate_every"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, Any], fault: str, tmp_path: Path) -> None:
    with pytest.raises(Refused) as refused:
        registered("ppo", tmp_path, **settings)
    assert refused.value.faults[0].startswith(fault)


OWN = """
from dataclasses import replace
from artos import Actor, RolloutActor
from triggers import ObjectKeyTrigger
from triggers.algorithms.ppo import workload as ppo

small = ppo(actors=1, envs=1, steps=8, minibatches=1, epochs=1, total_steps=48)
by_setting = replace(small, evaluate_every=2, evaluation_episodes=1)
row = {"evaluator.play": ObjectKeyTrigger("model_param", every=3)}
by_row = replace(small, triggers={**small.triggers, **row})
by_both = replace(by_row, evaluate_every=2)

class Bare(Actor):
    def data_keys(self):
        return RolloutActor("CartPole-v1").data_keys()
    def setup(self, context):
        pass
    def bind(self, params, version):
        pass
    def sample(self, start, rows, call):
        pass

bare = replace(by_setting, actor=Bare())
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    (tmp_path / "own_table.py").write_text(OWN)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "versions"), [("by_setting", [0, 2, 4, 6]), ("by_row", [0, 3, 6])]
)
def test_a_users_workload_says_it_in_its_fields_or_its_table(
    name: str, versions: list[int], own: Path
) -> None:
    end = finished(registered(f"own_table.py:{name}", own), own)
    assert [each.version for each in end.coordinator.concern(Evaluation).found] == versions


def test_saying_it_twice_is_refused(own: Path) -> None:
    with pytest.raises(Refused, match=r"evaluate_every=2, and the table has 'evaluator\.play'"):
        registered("own_table.py:by_both", own)


def test_an_actor_that_cannot_play_is_refused(own: Path) -> None:
    with pytest.raises(Refused, match="Bare cannot be evaluated, as it has no env, spec"):
        registered("own_table.py:bare", own)
