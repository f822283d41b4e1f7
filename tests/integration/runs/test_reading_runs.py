"""What actors read is of the version that they bound, here, in one process, and after kills."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import ROOT, SUPPORT
from named import LEARNER, acting
from real_runs import Artos, Outcome, book_of, shared_memory, updates

from artos import load
from artos.specs.keys import READS

Start = Callable[..., Artos]


def test_the_example_goes_on_with_its_past(artos: Callable[..., Outcome], home: Path) -> None:
    """Also with more of it, or none, or again; its learner names no parts of its weights."""
    shutil.copy(ROOT / "docs" / "examples" / "my_self_play.py", home)
    run = home / "run"
    first = artos(
        "run", "my_self_play.py:workload", "--inline", "--run-dir", run, "--set", "total_updates=60"
    )
    assert first.status == 0, first.err
    assert past_in(run) == {*range(20, 60, 5)}
    for total, history, every, past in (
        (70, 12, 5, {*range(20, 70, 5)}),
        (80, 0, 1, set()),
        (90, 8, 5, {80, 85}),
    ):
        settings = f"total_updates={total}", f"history={history}", f"every={every}"
        again = (word for each in settings for word in ("--set", each))
        ended = artos("run", "--inline", "--resume", run, *again)
        assert ended.status == 0, ended.err
        assert past_in(run) == past


def past_in(run: Path) -> set[int]:
    found = (re.fullmatch(r"past\.(\d+)\.params", name) for name in saved(run))
    return {int(each[1]) for each in found if each}


@pytest.fixture
def read(home: Path) -> Path:
    shutil.copy(SUPPORT / "reading.py", home)
    return home / "run"


def saved(run: Path) -> set[str]:
    manifest = json.loads((run / "checkpoint" / "manifest.json").read_text())
    return {each["name"] for each in manifest["layout"]}


def test_in_one_process_and_resumed(artos: Callable[..., Outcome], read: Path) -> None:
    first = artos(
        "run", "reading.py:workload", "--inline", "--run-dir", read, "--total-steps", 320, "--json"
    )
    assert first.status == 0, first.err
    assert READS + "told" in saved(read)
    more = ("--total-steps", 640, "--set", "evaluate_every=9", "--json")
    again = artos("run", "--inline", "--resume", read, *more)
    assert again.status == 0, again.err
    assert again.summary["updates"] == 20
    assert again.summary["restarts"] == 0
    assert [each["version"] for each in again.summary["evaluation"]] == [10, 18, 20]


POLICY = """
import torch
from torch import nn

from artos import ObjectKey, RolloutActor, TorchLearner, Workload
from triggers import DataKeyTrigger, ObjectKeyTrigger


class Bold(nn.Module):
    outputs = ()

    def __init__(self, spec):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))

    def act(self, obs, info):
        bold = torch.as_tensor(info.bound.objects["bold"]) == info.bound.version + 1
        return {"actions": (obs["observations"][:, 0] * self.weight + bold).long()}


class Teller(TorchLearner):
    objects = (ObjectKey("bold"),)

    def setup(self, context):
        super().setup(context)
        self.told = self.own("told", torch.ones(1))
        if self.published("bold") is None:
            self.publish("bold", 1)

    def update(self, batch, call):
        self.step(self.module.weight.sum() * 0)
        self.told.module.value.data += 1
        self.publish("bold", float(self.told.module.value))
        return {"bold": float(batch.gather("actions").mean())}


def workload():
    return Workload(
        name="bold",
        actor=RolloutActor("CartPole-v1", Bold, envs=1, reads=("bold",)),
        learner=Teller(),
        triggers={
            "learner.update": DataKeyTrigger(("actions",), size=8),
            "actors.sample": ObjectKeyTrigger("model_param"),
        },
        actors=1, steps=8, total_steps=40,
    )
"""


def test_a_policy_reads_also_after_the_run(artos: Callable[..., Outcome], home: Path) -> None:
    (home / "bold.py").write_text(POLICY)
    ended = artos("run", "bold.py:workload", "--inline", "--run-dir", home / "run", "--json")
    assert ended.status == 0, ended.err
    assert ended.summary["progress"]["metrics/bold"] == 1.0
    trained = load(home / "run", trust=True)
    assert trained.bound.objects == {"bold": 6.0}
    assert trained.act(np.zeros(4, np.float32)) == 1
    trained.export(home / "policy.pt2")
    program = torch.export.load(home / "policy.pt2").module()
    assert program(torch.zeros(3, 4)).tolist() == [1, 1, 1]


@pytest.mark.long
@pytest.mark.processes
def test_members_are_killed_and_the_run_goes_on(start: Start, home: Path, read: Path) -> None:
    slow, whole = home / "slow", ("--total-steps", 9600, "--json")
    slow.touch()
    run = start("run", "reading.py:workload", "--run-dir", read, *whole)
    for number, member in enumerate((LEARNER, *acting(0, 1), LEARNER), 1):
        run.until(lambda: updates(read) > 2 * number)  # noqa: B023
        run.kill(member)
    run.until(lambda: updates(read) > 12)
    run.process.terminate()
    assert run.wait().status == 130
    slow.unlink()
    ended = start("run", "--resume", read, *whole).wait()
    assert ended.status == 0, ended.err
    assert ended.summary["updates"] == 300
    assert len(book_of(read)) == 9600
    assert not shared_memory()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ("reads=tolt", "Reader reads 'tolt', which Teller does not publish: did you mean told"),
        ("reads=model_param", "Reader reads 'model_param', the weights, which it has anyway"),
        (
            "history=126",
            "Reader.history must be within 0 and 125, as many past versions",
        ),
        (
            "past_of=rival",
            "Reader.past_of has 'rival': name learners there, beside the first, whose",
        ),
        ("past_of=learner", "Reader.past_of has 'learner': name learners there, beside the first"),
        ("history=0", "Reader.every is 2, but no past version is kept: set history, or leave it"),
    ],
)
def test_what_cannot_be_read_is_refused(
    artos: Callable[..., Outcome], read: Path, settings: str, words: str
) -> None:
    refused = artos("run", "reading.py:workload", "--inline", "--set", settings)
    assert refused.status == 2
    assert words in refused.err


def test_an_object_without_a_first_value_is_refused(
    artos: Callable[..., Outcome], read: Path
) -> None:
    file = read.parent / "reading.py"
    file.write_text(file.read_text().replace("is None", "is True"))
    refused = artos("run", "reading.py:workload", "--inline")
    assert refused.status == 2
    assert "object 'told' cannot be published: actors read it with the first version" in refused.err


def test_a_name_is_no_list_of_names(artos: Callable[..., Outcome], read: Path) -> None:
    file = read.parent / "reading.py"
    file.write_text(file.read_text().replace("(reads,)", "reads"))
    refused = artos("run", "reading.py:workload", "--inline")
    assert refused.status == 2
    assert "Reader reads a text, not names: write reads=('told',)" in refused.err
