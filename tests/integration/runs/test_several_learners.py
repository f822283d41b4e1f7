"""Several learners by name, in one process and as processes, resumed and killed one by one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from helpers import ROOT, SUPPORT
from inline_runs import finished, registered
from numpy.typing import NDArray
from real_runs import Artos, Outcome, kill_each

from artos import load
from artos.errors import Refused
from artos.pool.view import clean
from artos.specs.members import Member
from triggers.journal import read
from triggers.setting import settable

Start = Callable[..., Artos]
LEARNERS = ("even", "odd", "watcher")


@pytest.fixture
def run(home: Path) -> Path:
    shutil.copy(SUPPORT / "pennies.py", home)
    return home / "run"


def manifest_of(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "checkpoint" / "manifest.json").read_text())
    return found


def arrays_of(run: Path) -> dict[str, NDArray[Any]]:
    return safetensors.numpy.load_file(run / "checkpoint" / manifest_of(run)["file"])


def test_the_example_understands_itself(artos: Callable[..., Outcome], home: Path) -> None:
    shutil.copy(ROOT / "docs" / "examples" / "my_two_policies.py", home)
    ended = artos("run", "my_two_policies.py:workload", "--inline", "--json")
    assert ended.status == 0, ended.err
    assert ended.summary["progress"]["metrics/right"] > 0.95, "by chance it is 0.25"
    updates = {name: ended.summary["learners"][f"{name}.updates"] for name in ("listener", "model")}
    assert updates == {"listener": 400, "model": 100}


def test_each_has_versions_updates_and_lag_of_its_own(tmp_path: Path) -> None:
    shutil.copy(SUPPORT / "pennies.py", tmp_path)
    made = finished(registered("pennies.py:workload", tmp_path), tmp_path)
    of = made.coordinator.learners
    assert {name: of[name].updates for name in LEARNERS} == {"even": 40, "odd": 40, "watcher": 13}
    assert {name: of[name].told for name in LEARNERS} == {"even": 40, "odd": 40, "watcher": 13}
    lines = [line for line in read(made.journal) if "done" in line]
    by = {name: [line for line in lines if line["by"] == name] for name in LEARNERS}
    assert {name: len(each) for name, each in by.items()} == {"even": 40, "odd": 40, "watcher": 13}
    assert [line["version"] for line in by["odd"]] == [*range(1, 41)]
    assert {line["lag_max"] for line in (*by["even"], *by["odd"])} == {0}
    assert not any("lag_max" in line for line in by["watcher"]), "no version of its acted"
    fired = [line["trigger"] for line in read(made.journal) if "trigger" in line]
    assert fired.count("watcher.note") == 1, "an object of another learner came above its bound"


@pytest.mark.parametrize(("every", "least", "most"), [(20, 1.15, 1.25), (10_000, 0.3, 0.5)])
def test_a_population_gets_where_no_member_would(
    every: int, least: float, most: float, tmp_path: Path
) -> None:
    """The toy of the paper on population-based training; settings are copied and changed, too."""
    shutil.copy(ROOT / "docs" / "examples" / "my_population.py", tmp_path)
    made = finished(registered("my_population.py:workload", tmp_path, every=every), tmp_path)
    monitor = made.coordinator.monitor  # type: ignore[attr-defined]
    for score in (monitor.metrics["score"], monitor.beside["two"].metrics["score"]):
        assert least < score < most


def test_each_may_be_set_while_a_run_goes(tmp_path: Path) -> None:
    shutil.copy(ROOT / "docs" / "examples" / "my_world_model.py", tmp_path)
    found = registered("my_world_model.py:workload", tmp_path)
    assert {"learner.lr", "model.lr"} <= settable(found.plan, found.table).keys()
    assert {name: found.plan.of(name).layout[0] for name in found.plan.learners}["model"] == (
        "layers.0.weight", (32, 5)
    ), "its network is its own"  # fmt: skip


@pytest.mark.parametrize("saved", ["model", "all"])
def test_all_of_them_go_on_together(
    saved: str, artos: Callable[..., Outcome], run: Path, tmp_path: Path
) -> None:
    """With all of the run saved, as if it had not been interrupted."""
    begin = ("run", "pennies.py:workload", "--inline", "--set", f"checkpoint={saved}")
    assert artos(*begin, "--run-dir", run).status == 0
    at_once = artos(*begin, "--run-dir", tmp_path / "whole", "--set", "total_updates=90")
    assert at_once.status == 0, at_once.err
    first = manifest_of(run)["learners"]
    assert {name: each["version"] for name, each in first.items()} == {"odd": 40, "watcher": 13}
    assert first["odd"]["objects"] == {"made": 40}
    again = artos("run", "--inline", "--resume", run, "--set", "total_updates=90", "--json")
    assert again.status == 0, again.err
    assert again.summary["restarts"] == 0, "each goes on from its own state, or actors would fail"
    then = manifest_of(run)
    assert (then["version"], then["learners"]["odd"]["version"]) == (90, 90)
    if saved == "all":
        whole = arrays_of(tmp_path / "whole")
        for name, array in arrays_of(run).items():
            np.testing.assert_array_equal(array, whole[name], name)


POLICY = """
import torch
from torch import nn

from artos import ObjectKey, RolloutActor, TorchLearner, Workload
from triggers import DataKeyTrigger, ObjectKeyTrigger


class Led(nn.Module):
    outputs = ()

    def __init__(self, spec):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))

    def act(self, obs, info):
        told = torch.as_tensor(info.bound.objects["boss/told"])
        led = torch.as_tensor(info.bound.objects["boss/model_param"])
        assert led.shape == (1,)
        right = (led == told) & (told == info.bound.versions["boss"])  # it counts its versions
        return {"actions": (0 * obs["observations"][:, 0] + right).long()}


class Boss(TorchLearner):
    objects = (ObjectKey("told"),)

    def setup(self, context):
        super().setup(context)
        if self.published("told") is None:
            self.publish("told", 0)

    def update(self, batch, call):
        with torch.no_grad():
            self.module.weight += 1
        self.publish("told", float(self.module.weight))
        self.publish()


class Follower(TorchLearner):
    def update(self, batch, call):
        self.step(self.module.weight.sum() * 0)
        return {"led": float(batch.gather("actions").mean())}


def workload():
    return Workload(
        name="led",
        actor=RolloutActor("CartPole-v1", Led, envs=1, reads=("boss/told", "boss/model_param")),
        learner=Follower(),
        learners={"boss": Boss()},
        triggers={
            "learner.update": DataKeyTrigger(("actions",), size=8),
            "boss.update": DataKeyTrigger(("actions",), size=8),
            "actors.sample": ObjectKeyTrigger("model_param"),
        },
        actors=1, steps=8, total_steps=40, evaluate_every=2, evaluation_episodes=1,
    )
"""


def test_a_policy_reads_another_learner_where_it_is_evaluated_and_after_the_run(
    artos: Callable[..., Outcome], home: Path
) -> None:
    (home / "led.py").write_text(POLICY)
    ended = artos("run", "led.py:workload", "--inline", "--run-dir", home / "run", "--json")
    assert ended.status == 0, ended.err
    assert ended.summary["progress"]["metrics/led"] == 1.0
    assert len(ended.summary["evaluation"]) == 4
    assert ended.summary["evaluations_failed"] == ""
    for best in (False, True):
        trained = load(home / "run", trust=True, best=best)
        objects = trained.bound.objects
        assert objects["boss/model_param"].tolist() == [objects["boss/told"]]
        assert trained.act(np.zeros(4, np.float32)) == 1
        trained.export(home / f"{best}.pt2")
    assert objects["boss/told"] < 5, "the best version was played earlier"


@pytest.mark.long
def test_each_is_killed_and_the_others_go_on(start: Start, run: Path) -> None:
    """Then the run is stopped, and resumed. Actors fail where what they bind is not together."""
    process = start("run", "pennies.py:workload", "--run-dir", run, "--set", "total_updates=100000")
    kill_each(process, run, map(Member, LEARNERS), LEARNERS)
    died = [line["died"] for line in read(run / "journal.jsonl") if "died" in line]
    assert died == [*LEARNERS], "nobody fell with it"
    saved = manifest_of(run)
    assert saved["version"] == saved["updates"]
    assert {n: each["version"] for n, each in saved["learners"].items()} == {
        n: each["updates"] for n, each in saved["learners"].items()
    }, "an update whose learner is killed is neither lost nor made twice"
    more = saved["updates"] + 5
    again = start("run", "--resume", run, "--set", f"total_updates={more}", "--json").wait()
    assert again.status == 0, again.err
    assert again.summary["restarts"] == 0
    assert again.summary["learners"]["odd.version"] >= saved["learners"]["odd"]["version"] + 4
    assert process.survivors() == []
    assert (run / "logs" / "odd.log").exists()


@pytest.mark.long
@pytest.mark.processes
def test_each_leases_a_device_for_its_updates(start: Start, home: Path) -> None:
    """A model beside PPO: they take turns, and both are on the bill."""
    shutil.copy(ROOT / "docs" / "examples" / "my_world_model.py", home)
    limits = ("--total-steps", 1024, "--device", "pool", "--json")
    ended = start("run", "my_world_model.py:workload", "--run-dir", home / "run", *limits).wait()
    assert ended.status == 0, ended.err
    assert ended.summary["learners"]["model.updates"] == 4
    lines = [*read(home / "run" / "journal.jsonl")]
    ready = {line["ready"]: line.get("device") for line in lines if "ready" in line}
    assert (ready["learner"], ready["model"]) == ("cpu:0", "cpu:0")
    times = ended.summary["times_by_member"]
    worked = times["learner"]["work"] + times["model"]["work"]
    assert ended.summary["usage"]["device_seconds_held"] == pytest.approx(worked, rel=0.01)
    clean()


TABLE = """
from artos import Workload
from pennies import Players, Policy, Watcher
from triggers import *

def workload() -> Workload:
    return Workload(
        name="wrong", actor=Players(), total_updates=5, total_steps=0, actors=2, steps=8,
        {learners}
        triggers={{
            "even.update": DataKeyTrigger(("even", "rewards"), n=2, size=8),
            "actors.sample": ObjectKeyTrigger("even/model_param"),
            {rows}
        }},
    )
"""
GOOD = (
    'learners={"even": Policy("even", 1, 0.1), "odd": Policy("odd", -1, 0.1), "watch": Watcher()},'
)
ODD = '"odd.update": DataKeyTrigger(("odd", "rewards"), n=2, size=8),'


@pytest.mark.parametrize(
    ("learners", "rows", "wanted"),
    [
        (GOOD, ODD, ["nothing fires the watch"]),
        (
            GOOD,
            ODD + '"watch.loook": CountTrigger(9), "wach.look": CountTrigger(9),',
            ["has no method 'loook': did you mean look", "there is no 'wach.look'"],
        ),
        (
            GOOD,
            ODD + '"watch.look": ValueTrigger("odd/maid", above=1), '
            '"watch.note": ObjectKeyTrigger("od/made"),',
            ["the odd does not publish it", "there is no learner 'od'"],
        ),
        (
            GOOD,
            '"odd.update": DataKeyTrigger(("odd", "rewards"), n=2, size=8, max_lag=1), '
            '"watch.look": DataKeyTrigger(("odd",), size=8, max_lag=1),',
            ["actors do not wait for versions of the odd", "counts versions of the watch, and no"],
        ),
        (
            'learner=Policy("even", 1, 0.1), learners={"learner": Watcher(), "actors": Watcher(), '
            '"a b": Watcher(), "actor-1": Watcher(), "actor": Watcher()},',
            "",
            ["two roles are called 'learner'", "learners['actors']: the table calls something else",
             "learners['a b']: call it by letters", "learners['actor-1']: logs call something else",
             "learners['actor']: logs call something else"],
        ),
        ("learners=[Watcher()],", "", ["name each of them"]),
        ("", "", ["nobody learns"]),
    ],
    ids=["unfired", "targets", "objects", "lag", "names", "list", "none"],
)  # fmt: skip
def test_what_is_wrong_is_told_before_anything_starts(
    learners: str, rows: str, wanted: list[str], tmp_path: Path
) -> None:
    shutil.copy(SUPPORT / "pennies.py", tmp_path)
    (tmp_path / "wrong.py").write_text(TABLE.format(learners=learners, rows=rows))
    with pytest.raises(Refused) as refused:
        registered("wrong.py:workload", tmp_path)
    for fault in wanted:
        assert fault in str(refused.value)


def test_what_actors_read_of_others_must_be_there(tmp_path: Path) -> None:
    shutil.copy(SUPPORT / "pennies.py", tmp_path)
    table = TABLE.format(learners=GOOD, rows=ODD + '"watch.look": CountTrigger(9),')
    reads = '("odds/made", "odd/maid", "even/model_param", "made", "even/made")'
    actor = f"class Reading(Players):\n    reads = {reads}\n\ndef workload"
    (tmp_path / "wrong.py").write_text(
        table.replace("def workload", actor).replace("=Players()", "=Reading()")
    )
    with pytest.raises(Refused) as refused:
        registered("wrong.py:workload", tmp_path)
    told = str(refused.value)
    assert "there is no learner 'odds': did you mean odd?" in told
    assert "'odd/maid', which Policy does not publish" in told
    assert "'even/model_param', the weights, which it has anyway" in told
    assert "reads an object twice" in told
