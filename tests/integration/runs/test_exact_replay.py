"""Asynchronous runs whose members were killed come out bit for bit once more, in one process."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from gated import GATE, opened
from helpers import ROOT, SUPPORT
from late import PICTURES
from named import LEARNER, acting
from real_runs import TINY, Artos, Outcome, updates

from artos.buffer.samplers.priority_memory import PriorityMemory
from artos.buffer.segment import Segment
from artos.errors import Refused
from artos.runs.checkpoint import read_manifest
from artos.runs.tape import Called, Published, Recorded, read, recorded, tapes
from deploy.replay import opening
from deploy.replay.opening import replayed
from head.records import run_lock
from triggers.algorithms import ppo

pytestmark = pytest.mark.processes

Start = Callable[..., Artos]
FIRST, SECOND = acting(0, 1)
FEW = ("--set", "after=64", "--set", "batch=32", "--set", "hidden=16")
CARTPOLE = ("--env", "CartPole-v1", "--actors", "2")


@pytest.fixture
def gated(home: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """CartPole that waits at gates, so that no run ends before all have been killed."""
    shutil.copy(SUPPORT / "gated.py", home)
    monkeypatch.chdir(home)  # where the gates are, also for whoever replays
    return ("--env", "gated:Gated", "--actors", "2")


@pytest.mark.long
def test_a_run_with_lag_whose_members_are_killed(
    start: Start, home: Path, gated: tuple[str, ...]
) -> None:
    run = home / "run"
    words = ("run", "ppo", *gated, *TINY, "--set", "max_lag=1", "--total-steps", 2_400)
    artos = start(*words, "--run-dir", run, "--json")
    artos.until(lambda: updates(run) > 5)
    artos.kill(FIRST)
    artos.until(lambda: updates(run) > 15)
    artos.kill(LEARNER)
    artos.until(lambda: len(tapes(run, "learner")) == 2)
    artos.kill(SECOND)
    opened(home, 1, 2, 3, 4)
    outcome = artos.wait()
    assert outcome.status == 0, outcome.err
    found = replayed(run, trust=True)
    assert (found.first_difference, found.ended) == (None, "")
    assert found.equal
    assert found.versions == outcome.summary["updates"] + 1


@pytest.mark.long
@pytest.mark.parametrize(
    "how", [pytest.param("uniform", marks=pytest.mark.exhaustive), "prioritised"]
)
def test_rows_that_are_drawn_are_drawn_again(
    start: Start, home: Path, gated: tuple[str, ...], how: str
) -> None:
    """Also by the priorities that a learner found which the killed one had given."""
    run = home / "run"
    words = ("run", "dqn", *gated, *FEW, "--set", f"replay={how}", "--total-steps", 3_000)
    artos = start(*words, "--run-dir", run, "--json")
    artos.until(lambda: updates(run) > 4)
    artos.kill(LEARNER)
    artos.until(lambda: len(tapes(run, "learner")) == 2)
    artos.kill(FIRST)
    opened(home, 1, 2)
    outcome = artos.wait()
    assert outcome.status == 0, outcome.err
    assert len(rated(run, 1)) == (how == "prioritised")
    found = replayed(run, trust=True)
    assert (found.equal, found.first_difference, found.ended) == (True, None, "")


@pytest.mark.long
@pytest.mark.parametrize(
    "how",
    [
        pytest.param(signal.SIGKILL, id="killed"),
        pytest.param(signal.SIGINT, id="stopped", marks=pytest.mark.exhaustive),
    ],
)
def test_a_run_that_draws_by_priority_and_was_resumed(
    start: Start, home: Path, gated: tuple[str, ...], how: signal.Signals
) -> None:
    run = home / "run"
    words = ("run", "dqn", *gated, *FEW, "--set", "replay=prioritised", "--total-steps", 3_000)
    artos = start(*words, "--run-dir", run)
    artos.until(lambda: saved(run) > 8 and rests(run))
    artos.signal(how)
    opened(home, 1)  # one that is stopped finishes what is in flight
    artos.wait()
    opened(home, 2)
    outcome = start("run", "--resume", run, "--json").wait()
    assert outcome.status == 0, outcome.err
    (given,) = rated(run, 1)
    assert len(np.unique(given.leaves)) > 32, "they are those that its first part gave"
    found = replayed(run, trust=True)
    assert (found.equal, found.first_difference, found.ended) == (True, None, "")


def rated(run: Path, tape: int) -> list[PriorityMemory]:
    """The priorities that a process of the learner found."""
    files = (run / "replay").glob(f"learner-{tape}.priorities-*")
    return [PriorityMemory(Segment.attach(file)) for file in files]


@pytest.mark.long
def test_a_run_that_was_resumed_twice_with_other_settings(
    artos: Callable[..., Outcome], home: Path
) -> None:
    run = home / "run"
    words = ("run", "ppo", *CARTPOLE, *TINY, "--set", "max_lag=1", "--total-steps", 320)
    assert artos(*words, "--run-dir", run).status == 0
    assert artos("run", "--resume", run, "--total-steps", 640, "--set", "lr=0.01").status == 0
    assert artos("run", "--resume", run, "--total-steps", 960).status == 0
    found = replayed(run)
    assert (found.equal, found.first_difference, found.ended) == (True, None, "")
    made = [each for tape in tapes(run, "learner") for each in read(tape)[1]]
    assert len(tapes(run, "learner")) == 3
    assert found.versions == sum(isinstance(each, Published) for each in made)
    assert replayed(run, until=8).versions == 9


@pytest.mark.long
def test_a_run_that_was_killed_whole_and_resumed(
    start: Start, home: Path, gated: tuple[str, ...]
) -> None:
    run = home / "run"
    words = ("run", "ppo", *gated, *TINY, "--set", "max_lag=1", "--total-steps", 1_600)
    artos = start(*words, "--run-dir", run)
    standing = GATE // 16  # updates until both actors wait at the first gate
    artos.until(lambda: updates(run) == standing == saved(run))
    artos.signal(signal.SIGKILL)
    artos.wait()
    opened(home, 1, 2, 3)
    outcome = start("run", "--resume", run, "--json").wait()
    assert outcome.status == 0, outcome.err
    found = replayed(run, trust=True)
    assert (found.equal, found.first_difference, found.ended) == (True, None, "")
    # All from 0 on, but for the last one before the kill: its checksum is only in the next tape.
    assert found.versions == outcome.summary["updates"]


def saved(run: Path) -> int:
    """The version of its checkpoint; -1: there is none."""
    there = (run / "checkpoint" / "manifest.json").exists()
    return read_manifest(run / "checkpoint").version if there else -1


def rests(run: Path) -> bool:
    """Whether all that it did before its gate is in its records."""
    records = run / "journal.jsonl", run / "checkpoint" / "manifest.json"
    return time.time() - max(each.stat().st_mtime for each in records) > 6.0


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a run of five updates, ``run``."""
    home = tmp_path_factory.mktemp("home")
    steps = ("--total-steps", 160, "--run-dir", home / "run", "--json")
    artos = Artos(home, ("run", "ppo", *CARTPOLE, *TINY, *steps))
    try:
        outcome = artos.wait()
        assert outcome.status == 0, outcome.err
        yield home
    finally:
        artos.end()


def repeated(short: Path, *arguments: object, typed: str = "") -> Outcome:
    artos = Artos(short, ("replay", short / "run", *arguments), typed=typed)
    try:
        return artos.wait()
    finally:
        artos.end()


def test_scripts_are_told_in_json(short: Path) -> None:
    found = repeated(short, "--verify", "--json")
    assert found.status == 0, found.err
    told = json.loads(found.out)
    assert (told["equal"], told["versions"], told["first_difference"]) == (True, 6, None)


def test_until_an_update(short: Path) -> None:
    found = repeated(short, "--until", 2)
    assert found.status == 0, found.err
    lines = found.out.splitlines()
    assert lines[0].startswith("version 1  0 steps  policy_loss ")
    assert lines[-1] == "3 versions, all as in the run"
    found = repeated(short, "--until", 0)
    assert found.out == "1 version as in the run\n"


@pytest.mark.long
def test_until_an_update_that_there_is_not(short: Path) -> None:
    found = repeated(short, "--until", 99)
    assert found.status == 0, found.err
    assert found.out.splitlines()[-1].endswith("ends there: the run has no version 99")
    found = repeated(short, "--until", 99, "--verify")
    assert found.status == 1, "there is more that was to be verified"


def test_a_debugger_before_an_update(short: Path) -> None:
    found = repeated(short, "--break", 3, typed="p len(batch), call.firing > 1\ncontinue\n")
    assert found.status == 0, found.err
    assert "version 3 is about to be made" in found.out
    assert ", True)" in found.out
    assert found.out.splitlines()[-1] == "6 versions, all as in the run"


def test_a_debugger_steps_into_the_learners_method(short: Path) -> None:
    """As it says itself, and the docs."""
    typed = (
        "p type(learner).__name__", "s", "p (type(self).__name__, len(batch), call.method)", "c\n"
    )  # fmt: skip
    found = repeated(short, "--break", 3, typed="\n".join(typed))
    assert found.status == 0, found.err
    assert "s steps into the learner's method" in found.out
    assert re.search(
        r"'PPO'\n.*ppo\.py\(\d+\)update\(\)\n.*\('PPO', \d+, 'update'\)", found.out, re.S
    )
    assert found.out.splitlines()[-1] == "6 versions, all as in the run"


@pytest.mark.long
def test_a_debugger_that_is_left(short: Path) -> None:
    found = repeated(short, "--break", 3, typed="q\n")
    assert found.status == 0, found.err
    said = "3 versions, all as in the run; it ends there: the debugger was left\n"
    assert found.out.endswith(said)


@pytest.mark.parametrize("goes_on", [True, False])
def test_a_learner_that_raises(
    short: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, goes_on: bool
) -> None:
    """That is a difference if the run went on; else it may have raised there, too."""

    def until_it_raises(path: Path) -> Recorded:
        tape = recorded(path)
        first = next(at for at, record in enumerate(tape.records) if isinstance(record, Called))
        return tape if goes_on else tape._replace(records=tape.records[: first + 1])

    def fail(*_: object, **__: object) -> None:
        raise ValueError("no")

    monkeypatch.setattr(opening, "recorded", until_it_raises)
    monkeypatch.setattr(ppo, "advantages", fail)
    found = replayed(short / "run")
    why = "learner raised ValueError: no"
    if goes_on:
        assert (str(found.first_difference), found.ended) == (f"{why} at version 0", "")
    else:
        assert (found.first_difference, found.ended) == (None, why)
    assert found.versions == 1


def test_a_damaged_weight_is_noticed(short: Path, tmp_path: Path) -> None:
    """The checksum of the last version is changed on the tape."""
    run = tmp_path / "run"
    run.mkdir()
    for name in ("config.json", "journal.jsonl"):
        (run / name).write_bytes((short / "run" / name).read_bytes())
    tape = tapes(short / "run", "learner")[0]
    (run / "replay").mkdir()
    data = bytearray(tape.read_bytes())
    data[-1] ^= 1
    (run / "replay" / tape.name).write_bytes(data)
    found = replayed(run)
    assert found.versions == 5
    assert str(found.first_difference) == "learner made another version at version 5"


@pytest.mark.parametrize("lost", [40, 8, 1])
def test_a_tape_that_was_cut_off(short: Path, tmp_path: Path, lost: int) -> None:
    """Whether versions are missing, or only the checksum of the last one."""
    run = shutil.copytree(short / "run", tmp_path / "run")
    (tape,) = tapes(run, "learner")
    os.truncate(tape, tape.stat().st_size - lost)
    found = replayed(run, trust=True)
    assert (found.equal, found.first_difference) == (True, None)
    assert found.versions < 6
    assert "cut off" in found.ended


def test_tapes_that_are_not_there(short: Path, tmp_path: Path) -> None:
    """The last one is missed by what the journal has; one in the midst by its number."""
    run = shutil.copytree(short / "run", tmp_path / "run")
    (tape,) = tapes(run, "learner")
    data = tape.read_bytes()
    tape.write_bytes(data[: data.index(b"\n") + 1] + bytes(64))  # killed before it had begun
    why = "the tapes of learner have none of its versions, and the run made 5: one was cut off"
    assert replayed(run, trust=True).ended.startswith(why)
    tape.with_name("learner-2.tape").write_bytes(data)
    with pytest.raises(Refused, match=r"learner-1\.tape is missing"):
        replayed(run, trust=True)


@pytest.mark.parametrize("is_live", [True, False], ids=["live", "killed"])
def test_a_run_whose_journal_is_behind(short: Path, tmp_path: Path, is_live: bool) -> None:
    """A version is made before the journal has it."""
    run = shutil.copytree(short / "run", tmp_path / "run")
    (run / "summary.json").unlink()
    journal = run / "journal.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    fired = [at for at, line in enumerate(lines) if '"trigger":"learner.update"' in line]
    journal.write_text("".join(lines[: fired[3]]))
    with run_lock.take(run) if is_live else nullcontext():
        found = replayed(run, trust=True)
    assert (found.equal, found.versions) == (True, 4)
    assert "all up to version 3 is as in the run" in found.ended
    assert found.ended.startswith("the run goes on" if is_live else "the run was killed")


def test_an_environment_that_no_seed_repeats_is_named(start: Start, home: Path) -> None:
    shutil.copy(SUPPORT / "late.py", home)
    run = home / "run"
    words = ("run", "ppo", "--env", "late:late", "--actors", 1, *TINY, "--total-steps", 160)
    outcome = start(*words, "--run-dir", run, "--json").wait()
    assert outcome.status == 0, outcome.err
    found = replayed(run, trust=True)
    assert not found.equal
    assert str(found.first_difference) == "actor 0 wrote other rows in steps 32 to 47"


@pytest.mark.long
def test_pictures_that_no_seed_repeats_are_named_with_member_and_step(
    start: Start, home: Path
) -> None:
    """All else is the same: actions are drawn at random. Records of an earlier ARTOS say less."""
    shutil.copy(SUPPORT / "late.py", home)
    run = home / "run"
    every = ("--set", "envs=1", "--set", "sync=1", "--set", "epsilon=1.0", "--total-steps", 800)
    only_of_actor_1 = ("--actors", 2, "--seed", 2)
    words = ("run", "dqn", "--env", "late:Pictures", *only_of_actor_1, *FEW, *every)
    outcome = start(*words, "--run-dir", run, "--json").wait()
    assert outcome.status == 0, outcome.err
    found = replayed(run, trust=True)
    assert not found.equal
    first = found.first_difference
    assert first is not None
    assert first.member == "actor 1"
    resets = PICTURES // 20  # each has a row of its own; of the round before there may be no sums
    row = PICTURES + 1 + resets
    assert (first.step or 0) <= row < (first.until or 0) <= row + 16
    journal = run / "journal.jsonl"
    journal.write_text(re.sub(r',"large":"[^"]*"', "", journal.read_text()))
    found = replayed(run, trust=True)
    assert found.versions > 8, "those made of pictures that came out the same"
    said = f"learner made another version at version {found.versions}"
    assert str(found.first_difference) == said


def test_what_cannot_be_replayed_is_refused_with_all_that_is_in_the_way(
    artos: Callable[..., Outcome], home: Path
) -> None:
    run = home / "run"
    words = ("run", "ppo", *CARTPOLE, *TINY, "--inline", "--total-steps", 64, "--run-dir", run)
    assert artos(*words).status == 0
    with pytest.raises(Refused) as refused:
        replayed(run)
    (fault,) = refused.value.faults
    assert "it ran in one process (--inline)" in fault
    file = run / "config.json"
    config = json.loads(file.read_text()) | {"inline": False, "resumed": [{}]}
    config["versions"]["numpy"] = "0.1"
    file.write_text(json.dumps(config))
    with pytest.raises(Refused) as refused:
        replayed(run)
    nothing, package = refused.value.faults
    assert "it has not recorded what a replay needs" in nothing
    assert "numpy is " in package


@pytest.mark.long
def test_rows_that_were_kept_when_a_run_was_resumed(start: Start, home: Path) -> None:
    run = home / "run"
    words: tuple[object, ...] = ("run", "dqn", *CARTPOLE, *FEW, "--total-steps", 2_000_000)
    artos = start(*words, "--run-dir", run, "--json")
    artos.until(lambda: updates(run) > 8)
    artos.signal(signal.SIGTERM)
    stopped = artos.wait().summary["steps"]
    words = ("run", "--resume", run, "--total-steps", stopped + 200, "--json")
    outcome = start(*words).wait()
    assert outcome.status == 0, outcome.err
    assert any(json.loads((run / "config.json").read_text())["resumed"][0]["rows"])
    found = replayed(run)
    assert (found.equal, found.first_difference, found.ended) == (True, None, "")
    assert found.versions == saved(run) + 1


@pytest.mark.long
def test_past_versions_that_were_kept_when_a_run_was_resumed(
    artos: Callable[..., Outcome], home: Path
) -> None:
    """Also where it kept more of them from then on, whether they were there or not."""
    shutil.copy(ROOT / "docs" / "examples" / "my_self_play.py", home)
    run = home / "run"
    first = ("my_self_play.py:workload", "--run-dir", run, "--set", "total_updates=30")
    for words in (
        first,
        ("--resume", run, "--set", "total_updates=40", "--set", "history=12"),
        ("--resume", run, "--set", "total_updates=50"),
    ):
        ended = artos("run", *words)
        assert ended.status == 0, ended.err
    config = json.loads((run / "config.json").read_text())
    assert [sorted(part["past"]) for part in config["resumed"]] == [
        [0, 5, 10, 15, 20, 25], [0, 5, 10, 15, 20, 25, 30, 35],
    ]  # fmt: skip
    found = replayed(run, trust=True)
    assert (found.equal, found.first_difference, found.ended) == (True, None, "")
    assert found.versions == saved(run) + 1
    del config["resumed"][1]["past"]
    (run / "config.json").write_text(json.dumps(config))
    with pytest.raises(Refused, match="did not record with which past versions"):
        replayed(run, trust=True)


@pytest.mark.long
def test_a_run_that_an_earlier_artos_resumed(
    artos: Callable[..., Outcome], home: Path, short: Path
) -> None:
    """Its journal does not say where."""
    run = home / "run"
    shutil.copytree(short / "run", run)
    assert artos("run", "--resume", run, "--total-steps", 320, "--trust").status == 0
    journal = run / "journal.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(line for line in lines if '"began"' not in line))
    with pytest.raises(Refused, match="its records do not say where"):
        replayed(run)


def test_code_that_has_changed_since(start: Start, home: Path) -> None:
    run = home / "run"
    words = ("run", "counting.py:workload", "--total-steps", 64, "--run-dir", run, "--json")
    outcome = start(*words).wait()
    assert outcome.status == 0, outcome.err
    file = home / "counting.py"
    file.write_text(f"{file.read_text()}\n# another line\n")
    with pytest.raises(Refused, match=r"counting\.py has changed since"):
        replayed(run, trust=True)


def test_an_environment_that_has_changed_since(artos: Callable[..., Outcome], home: Path) -> None:
    """Its actors import it, and not the learner that records."""
    shutil.copy(SUPPORT / "late.py", home)
    run = home / "run"
    words = ("ppo", "--env", "late:late", "--actors", 1, *TINY, "--total-steps", 64)
    assert artos("run", *words, "--run-dir", run).status == 0
    file = home / "late.py"
    file.write_text(f"{file.read_text()}\n# another line\n")
    with pytest.raises(Refused, match=r"late\.py has changed since"):
        replayed(run, trust=True)


def test_a_folder_without_a_run(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"there is no config\.json"):
        replayed(tmp_path)
