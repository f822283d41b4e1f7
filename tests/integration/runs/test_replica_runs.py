"""Runs whose learner is two processes: killed at random, and with a device of the pool each."""

from __future__ import annotations

import random
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from gated import GATE, opened
from helpers import SUPPORT
from inline_runs import commanded
from named import LEARNER
from real_runs import Artos, checkpointed, journal, shared_memory, updates

from artos.pool.folder import pool_folder
from artos.pool.view import clean, read_pool
from artos.specs.members import Member

pytestmark = [pytest.mark.processes, pytest.mark.long]

SECOND = Member(LEARNER.role, 1)
SHORT = ("--set", "envs=2", "--set", "steps=32", "--set", "minibatches=2", "--set", "epochs=2")
BOTH = ("cpu:0", "cpu:1")
DEVICES = {"ARTOS_DEVICES": ",".join(BOTH)}

Start = Callable[..., Artos]


def command(run: Path, steps: int) -> tuple[object, ...]:
    fixed = ("--set", "learners=2", *SHORT, "--seed", 1, "--json")
    return "run", "ppo", *fixed, "--total-steps", steps, "--run-dir", run


def test_killed_replicas_come_back_where_the_others_are(start: Start, home: Path) -> None:
    """What is learned is, bit for bit, what it is without kills; in one process, but for rounding.

    Each has to begin again from the newest version, and to make again what was not published.
    """
    steps, chance = 4 * 3 * GATE, random.Random(5)  # 10 updates from gate to gate
    calm, killed, inline = home / "calm", home / "killed", home / "inline"
    shutil.copy(SUPPORT / "gated.py", home)
    gated = ("--env", "gated:Gated")
    artos = start(*command(killed, steps), *gated)
    for number, member in enumerate((LEARNER, SECOND), 1):
        before = updates(killed)
        artos.until(lambda: updates(killed) > before + 3)  # noqa: B023
        time.sleep(chance.uniform(0.0, 0.1))
        artos.kill(member)
        opened(home, number)
    outcome = artos.wait()
    assert outcome.status == 0, outcome.err
    assert (outcome.summary["restarts"], outcome.summary["updates"]) == (2, 30)
    died = [line["died"] for line in journal(killed) if "died" in line]
    assert died == ["learner", "learner 1"]
    assert start(*command(calm, steps), *gated).wait().status == 0
    wanted = checkpointed(calm)
    for name, array in checkpointed(killed).items():
        np.testing.assert_array_equal(array, wanted[name], err_msg=name)
    assert commanded(home, (*command(inline, 128 * 3), "--inline")).status == 0
    assert start(*command(home / "few", 128 * 3)).wait().status == 0
    for name, array in checkpointed(inline).items():
        few = checkpointed(home / "few")[name]
        np.testing.assert_allclose(few, array, rtol=1e-2, atol=1e-4, err_msg=name)
    assert not artos.survivors()
    assert not shared_memory()


def test_replicas_of_one_learner_of_several(start: Start, home: Path) -> None:
    """The model has two processes, PPO has one; a kill of either replica changes no bit of either.

    In one process, where one learner does the work of both replicas, it is the same but for
    rounding.
    """
    for file in ("gated.py", "divided_model.py"):
        shutil.copy(SUPPORT / file, home)
    gated = ("run", "divided_model.py:workload", "--env", "gated:Gated", "--json", "--seed", 1)
    gated = (*gated, "--total-steps", 4 * 3 * GATE, "--set", "learners=model=2")
    killed, calm, inline = home / "killed", home / "calm", home / "inline"
    artos = start(*gated, "--run-dir", killed)
    for number, rank in enumerate((1, 0), 1):
        before = fits(killed)
        artos.until(lambda: fits(killed) > before + 3)  # noqa: B023
        artos.kill(Member("model", rank))
        opened(home, number)
    outcome = artos.wait()
    assert outcome.status == 0, outcome.err
    assert outcome.summary["restarts"] == 2
    lines = journal(killed)
    assert [line["died"] for line in lines if "died" in line] == ["model 1", "model"]
    learning = {line["ready"] for line in lines if "ready" in line} - {"actor 0", "actor 1"}
    assert learning == {"learner", "model", "model 1"}
    assert start(*gated, "--run-dir", calm).wait().status == 0
    wanted = checkpointed(calm)
    assert any(name.startswith("model/") for name in wanted)
    for name, array in checkpointed(killed).items():
        np.testing.assert_array_equal(array, wanted[name], err_msg=name)
    assert commanded(home, (*gated, "--run-dir", inline, "--inline")).status == 0
    for name, array in checkpointed(inline).items():
        np.testing.assert_allclose(wanted[name], array, rtol=1e-3, atol=1e-5, err_msg=name)
    assert not artos.survivors()
    assert not shared_memory()


def fits(run: Path) -> int:
    return sum(line.get("by") == "model" for line in journal(run))


def test_two_runs_with_two_replicas_each_share_two_devices(tmp_path: Path) -> None:
    """Each has both at a time, and never one of them while the other run has the other one."""
    started, had_both = dict[str, Artos](), set[str]()

    def share() -> bool:
        holders = [each.workload for each in read_pool().holders if each.resource in BOTH]
        assert len({*holders}) <= 1, "one waits for a device, and keeps one that the other needs"
        had_both.update(holders if len(holders) == 2 else ())
        done = [updates(tmp_path / name / "run") for name in started]
        return len(had_both) == 2 and min(done) >= 20

    try:
        for name in ("one", "two"):
            (folder := tmp_path / name).mkdir()
            endless = command(folder / "run", 10**9)
            started[name] = Artos(folder, (*endless, "--device", "pool"), **DEVICES)
        started["two"].until(share)
        for name, each in started.items():
            each.signal(signal.SIGINT)
            assert each.wait().status == 130
            lines = journal(tmp_path / name / "run")
            ready = {line["ready"]: line for line in lines if "ready" in line}
            assert {ready[str(m)]["device"] for m in (LEARNER, SECOND)} == {"cpu:0", "cpu:1"}
    finally:
        for each in started.values():
            each.end()
        Artos(tmp_path, ("clean",)).wait()
        clean()
    assert not pool_folder().exists()
