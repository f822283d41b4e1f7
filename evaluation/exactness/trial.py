"""An asynchronous run that is disturbed at random and then replayed.

While it goes, members of it are killed (SIGKILL) and its number of actors is changed. Then
``artos replay --verify`` says whether every version comes out bit for bit. Runs on a cluster have a
head and two workers, which are killed and drained; they need network namespaces.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import psutil

from artos.errors import ArtosError
from artos.runs import tape
from deploy.local.local_runs import LocalRuns
from deploy.replay.difference import Difference
from evaluation.exactness.nodes import NODES, disturbed
from evaluation.exactness.recorded import recorded
from evaluation.lab.small_cluster import SmallCluster

_DEADLINE_SECONDS = 900.0
_ON_NODES = 3
"""Actors there, at most."""
_TURN_SECONDS = 0.1


class Case(NamedTuple):
    """An algorithm, and how long it trains."""

    arguments: tuple[str, ...]
    steps: int
    nodes: bool = False
    """Whether its actors are on nodes of a cluster."""


PPO = ("ppo", "--env", "CartPole-v1", "--set", "max_lag=1", "--set", "steps=32")
DQN = ("dqn", "--env", "CartPole-v1", "--set", "after=500")
CASES = {
    "PPO": Case(PPO, 150_000),
    "IMPALA": Case(("impala", "--env", "CartPole-v1"), 250_000),
    "DQN": Case(DQN, 20_000),
    "PPO, two replicas": Case((*PPO, "--set", "learners=2"), 20_000),
    "PPO, central inference": Case((*PPO, "--set", "inference=central"), 100_000),
    "SAC": Case(("sac", "--env", "Pendulum-v1", "--set", "after=300", "--set", "batch=64"), 1_500),
    "PPO on nodes": Case(PPO, 32_000, nodes=True),
    "DQN on nodes": Case(DQN, 5_000, nodes=True),
}


class Trial(msgspec.Struct, frozen=True):
    """One run: how it was disturbed, what it recorded, and how its replay went."""

    run: str
    outcome: str
    kills: int
    changes: int
    """Changes of the number of actors, and of nodes that were to be empty."""
    seconds: float
    versions: int
    equal: bool
    recorded: int
    """Bytes that a replay needs: tapes, and what the journal has beside its other uses."""
    why: str = ""


def trial(case: Case, folder: Path, seed: int, pause: float) -> Trial:
    """Train, disturb, replay; ``pause`` is the mean time between two disturbances (s)."""
    chance = random.Random(seed)
    if case.nodes:
        return _on_nodes(case, folder, chance, pause)
    actors = str(chance.randint(2, 3))
    words = (*case.arguments, "--actors", f"1..{actors}", "--total-steps", str(case.steps))
    log = folder.with_suffix(".log")
    with log.open("wb") as out:
        began = time.monotonic()
        process = psutil.Popen(
            [sys.executable, "-P", "-m", "artos", "run", *words, "--seed", str(seed), "--run-dir",
             str(folder), "--json"],
            stdout=out, stderr=out, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            kills, changes = _disturb(process, folder, chance, int(actors), pause)
        finally:  # it was interrupted, or the run took too long
            with suppress(psutil.NoSuchProcess):
                process.kill()
            process.wait()
        seconds = time.monotonic() - began
    return _judged(folder, folder.name, process.returncode, kills, changes, seconds)


def _on_nodes(case: Case, folder: Path, chance: random.Random, pause: float) -> Trial:
    folder.mkdir()
    words = (
        "--actors",
        f"1..{_ON_NODES}",
        "--total-steps",
        str(case.steps),
        "--seed",
        str(chance.randrange(99)),
    )
    with SmallCluster(folder) as cluster:
        for name in NODES:
            cluster.worker(name)
        began = time.monotonic()
        submit = cluster.artos("submit", "submit", *case.arguments, *words, "--wait", "--json")
        kills, changes = disturbed(submit, cluster, chance, _ON_NODES, pause, _DEADLINE_SECONDS)
        seconds = time.monotonic() - began
        runs = [config.parent for config in cluster.runs.glob("*/config.json")]
    run = runs[0] if runs else cluster.runs
    return _judged(run, folder.name, submit.returncode, kills, changes, seconds)


def _judged(run: Path, name: str, status: int, kills: int, changes: int, seconds: float) -> Trial:
    outcome = "done" if status == 0 else f"status {status}"
    told = _replayed(run)
    first = told.get("first_difference")
    differs = str(msgspec.convert(first, Difference)) if first else ""
    why = differs or str(told.get("ended") or told.get("error") or "")
    return Trial(
        name, outcome, kills, changes, seconds, told.get("versions", 0),
        told.get("equal") is True and not told.get("ended"), recorded(run), why,
    )  # fmt: skip


def _disturb(
    process: psutil.Popen, run: Path, chance: random.Random, actors: int, pause: float
) -> tuple[int, int]:
    kills = changes = 0
    deadline, due = time.monotonic() + _DEADLINE_SECONDS, 0.0
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(_TURN_SECONDS)
        if not tape.tapes(run, "learner"):
            continue  # it has not begun
        due = due or time.monotonic() + chance.expovariate(1 / pause)
        if time.monotonic() < due:
            continue
        due = time.monotonic() + chance.expovariate(1 / pause)
        try:
            if chance.random() < 1 / 3:
                with LocalRuns(run.parent) as runs:
                    runs.scale(run.name, chance.randint(1, actors))
                changes += 1
            else:
                chance.choice(process.children()).kill()
                kills += 1
        except (ArtosError, psutil.Error, IndexError, OSError):
            continue  # it has just ended
    return kills, changes


def _replayed(run: Path) -> dict[str, Any]:
    words = ("replay", str(run), "--verify", "--json", "--trust")
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "artos", *words], capture_output=True, text=True,
            check=False, timeout=_DEADLINE_SECONDS, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        found: dict[str, Any] = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        return {"error": f"it was not replayed within {_DEADLINE_SECONDS:g} s"}
    except ValueError:
        return {"error": done.stderr[-500:]}
    return found
