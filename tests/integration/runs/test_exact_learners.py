"""Asynchronous runs with several learners, some of them killed, come out bit for bit once more."""

from __future__ import annotations

import json
import re
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers import ROOT, SUPPORT
from named import LEARNER, acting
from real_runs import Artos, Outcome, kill_each, updates

from artos.buffer.shm_folder import PREFIX
from artos.errors import MemoryTooSmall
from artos.runs import run_memory
from artos.runs.tape import Peer, Published, read, tapes
from artos.specs.members import Member
from artos.system.shm import shm_root
from deploy.replay.opening import replayed

pytestmark = [pytest.mark.processes, pytest.mark.long]

Start = Callable[..., Artos]
PLAYERS = ("even", "odd", "watcher")
FIRST, SECOND = acting(0, 1)
DRAWING = '''
"""The same beside one another, but the model draws what it likes from a small buffer."""

import dataclasses

from artos import Uniform
from my_world_model import SEEN, WorldModel
from my_world_model import workload as claiming
from triggers import DataKeyTrigger, ReplayTrigger


class Drawing(WorldModel):
    def fit(self, batch, call):
        seen, after = (self.tensor(batch[key]) for key in ("observations", "next.observations"))
        loss = (self.module(seen, self.tensor(batch["actions"])) - after).square().mean()
        self.step(loss)
        return {"error": float(loss.detach())}


def workload(total_steps: int = 100_000):
    made = claiming(total_steps)
    claimed = DataKeyTrigger(made.triggers["learner.update"].keys, n=2, size=32)
    drawn = ReplayTrigger(SEEN, Uniform(32), ratio=0.5, after=64)
    return dataclasses.replace(
        made, learners={"model": Drawing()}, steps=32, capacity=96,
        triggers=made.triggers | {"learner.update": claimed, "model.fit": drawn},
    )
'''


def assert_exact(run: Path, *learners: str) -> None:
    found = replayed(run, trust=True)
    assert (found.first_difference, found.ended) == (None, "")
    made = [each for name in learners for path in tapes(run, name) for each in read(path)[1]]
    published = sum(isinstance(each, Published) for each in made)
    assert found.versions >= published > 20, "and those of which only the next tape has a checksum"


@pytest.fixture(params=["model", "all"])
def pennies(start: Start, home: Path, request: pytest.FixtureRequest) -> Path:
    """A run of players each of whom was killed, stopped and resumed."""
    shutil.copy(SUPPORT / "pennies.py", home)
    run, kept = home / "run", ("--set", f"checkpoint={request.param}")
    words = ("pennies.py:workload", "--run-dir", run, "--set", "total_updates=100000")
    process = start("run", *words, *kept)
    kill_each(process, run, (*map(Member, PLAYERS), FIRST, SECOND), PLAYERS)
    more = json.loads((run / "checkpoint" / "manifest.json").read_text())["updates"] + 20
    again = start("run", "--resume", run, "--set", f"total_updates={more}", "--json").wait()
    assert again.status == 0, again.err
    return run


def test_players_that_are_killed_one_after_the_other(pennies: Path) -> None:
    """Also what differs is found: a bit of a version, and which version an actor had read."""
    assert_exact(pennies, *PLAYERS)
    journal, tape = pennies / "journal.jsonl", tapes(pennies, "odd")[-1]
    whole, text = tape.read_bytes(), journal.read_text()
    tape.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    found = replayed(pennies, trust=True)
    assert str(found.first_difference).startswith("odd made another version at version ")
    tape.write_bytes(whole)
    *before, last = text.rpartition('"beside":{"odd":')
    version, brace, after = last.partition("}")
    journal.write_text("".join((*before, str(int(version) - 1), brace, after)))
    found = replayed(pennies, trust=True)
    assert str(found.first_difference).startswith("actor ")
    assert " wrote other rows in steps " in str(found.first_difference)


def test_a_population_that_takes_over_what_others_are(start: Start, home: Path) -> None:
    shutil.copy(ROOT / "docs" / "examples" / "my_population.py", home)
    run = home / "run"
    ended = start("run", "my_population.py:workload", "--run-dir", run, "--json").wait()
    assert ended.status == 0, ended.err
    taken = [each for path in tapes(run, "one") for each in read(path)[1] if isinstance(each, Peer)]
    assert {each.learner for each in taken} == {"two"}
    assert_exact(run, "one", "two")


@pytest.mark.parametrize("how", ["my_world_model", "drawing"])
def test_a_model_beside_a_policy(start: Start, home: Path, how: str) -> None:
    """Also where it draws rows from a buffer whose oldest rows go."""
    shutil.copy(ROOT / "docs" / "examples" / "my_world_model.py", home)
    (home / "drawing.py").write_text(DRAWING)
    run = home / "run"
    process = start("run", f"{how}.py:workload", "--run-dir", run, "--total-steps", 10_000_000)
    kill_each(process, run, (Member("model"), FIRST, LEARNER), ("learner", "model"))
    assert_exact(run, "learner", "model")


def test_texts_of_actors_that_had_their_weights_by_files(start: Start, home: Path) -> None:
    """Whichever version the signal had named when they looked; the folder is not needed."""
    run, folder = home / "run", home / "weights"
    settings = {
        "groups": 2, "group": 4, "width": 16, "threads": 1, "total_steps": 0, "max_lag": 1,
        "lr": 3e-2, "weights": "files", "weights_folder": folder,
    }  # fmt: skip
    words = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    task = (
        "run",
        "grpo",
        "--env",
        "ReverseText-v0(digits=2)",
        *words,
        "--total-updates",
        1_000_000,
    )
    process = start(*task, "--run-dir", run, "--json")
    for member in (FIRST, LEARNER):
        before = updates(run)
        process.until(lambda: updates(run) > before + 6)  # noqa: B023
        process.kill(member)
    killed = updates(run)
    process.until(lambda: updates(run) > killed + 6)
    process.signal(signal.SIGINT)
    assert process.wait().status == 130
    shutil.rmtree(folder)
    assert_exact(run, "learner")


def test_until_and_what_is_shown_of_each(artos: Callable[..., Outcome], home: Path) -> None:
    shutil.copy(SUPPORT / "pennies.py", home)
    assert artos("run", "pennies.py:workload", "--run-dir", home / "run").status == 0
    found = artos("replay", home / "run", "--until", 5, "--trust")
    assert found.status == 0, found.err
    lines = found.out.splitlines()
    assert [*filter(lambda line: line.startswith("even "), lines)][-1].startswith("even version 4 ")
    assert any(line.startswith("odd version 4 ") for line in lines)
    assert lines[-1].endswith(" versions, all as in the run")


def test_the_blocks_of_each_learner_are_counted_before_the_start(
    artos: Callable[..., Outcome], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(SUPPORT / "pennies.py", home)
    run = home / "run"
    assert artos("run", "pennies.py:workload", "--run-dir", run).status == 0
    monkeypatch.setattr(run_memory, "memory_left", lambda: 0)
    with pytest.raises(MemoryTooSmall) as refused:
        replayed(run, trust=True)
    monkeypatch.setattr(run_memory, "memory_left", lambda: refused.value.needed)
    held = list[dict[str, int]]()

    def look(*_: object) -> None:
        (folder,) = shm_root().glob(f"{PREFIX}replay-run.*")
        files = (path for path in folder.iterdir() if path.suffix != ".json")
        held.append({path.name: path.stat().st_size for path in files})

    assert replayed(run, trust=True, learned=look).equal
    assert sum(held[-1].values()) <= refused.value.needed
    own = [*filter(re.compile(r".+-actor-\d").fullmatch, held[-1])]
    assert {name.partition("-")[0] for name in own} == {"even", "odd"}, "nobody else reads rows"
