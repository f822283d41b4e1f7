"""Runs that save all of the run and have a replay buffer; what cannot be saved is told."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from helpers import PATIENCE
from numpy.typing import NDArray
from real_runs import Artos, Outcome

from artos.buffer.shm_folder import PREFIX
from artos.runs.checkpoint import read_manifest
from artos.system.shm import shm_root

pytestmark = pytest.mark.processes

RUN = ("run", "replaying.py:replayed", "--json", "--run-dir", "off")
ALL = ("--set", "checkpoint=all")
DRAWN = 64


@pytest.fixture(autouse=True)
def _workloads(home: Path) -> None:
    shutil.copy(Path(__file__).with_name("replaying.py"), home)


def written(run: Path) -> dict[str, int]:
    """Rows that each actor had ever written, whichever of them its block still holds."""
    rows = read_manifest(run / "checkpoint").rows_file
    assert rows is not None
    return {f"actor-{block.actor}": block.written for block in rows.blocks}


def rows_in(run: Path) -> dict[str, NDArray[np.generic]]:
    rows = read_manifest(run / "checkpoint").rows_file
    assert rows is not None
    found: dict[str, NDArray[np.generic]] = safetensors.numpy.load_file(
        run / "checkpoint" / rows.file
    )
    return found


@pytest.mark.long
def test_the_buffer_of_processes_is_there_again(artos: Callable[..., Outcome], home: Path) -> None:
    """Rows of before are drawn at once, nothing warms up again, and no row is lost."""
    first = artos(*RUN, *ALL)
    assert first.status == 0, first.err
    before, old = rows_in(home / "off"), written(home / "off")
    again = artos("run", "--resume", "off", "--json", "--total-steps", "7000")
    assert again.status == 0, again.err
    assert "everything is restored" in again.err
    assert again.summary["episodes"] > first.summary["episodes"]
    made = again.summary["steps"] - first.summary["steps"]
    drawn = (again.summary["updates"] - first.summary["updates"]) * DRAWN
    assert drawn == pytest.approx(8 * made, abs=2 * (8 * 20 * 2 + DRAWN))
    assert again.summary["lag_max"] > again.summary["updates"] - first.summary["updates"]
    assert again.summary["rows_lost"] == again.summary["restarts"] == 0
    after, new = rows_in(home / "off"), written(home / "off")
    assert after.keys() == before.keys()
    for name, rows in before.items():
        # One actor may have done nearly all: its block is full, and its oldest rows are gone.
        actor, _, _ = name.partition(".")
        gone = (new[actor] - len(after[name])) - (old[actor] - len(rows))
        assert new[actor] >= old[actor] > 0
        assert len(rows) > gone
        np.testing.assert_array_equal(after[name][: len(rows) - gone], rows[gone:])


@pytest.mark.long
def test_a_killed_run_goes_on_with_the_buffer_of_its_last_checkpoint(
    start: Callable[..., Artos], artos: Callable[..., Outcome], home: Path
) -> None:
    running = start(*RUN, *ALL, "--set", "total_steps=1000000")
    checkpoint = home / "off" / "checkpoint"

    def saved() -> int:
        if not (checkpoint / "manifest.json").exists():
            return 0
        rows = read_manifest(checkpoint).rows_file
        return sum(block.written for block in rows.blocks) if rows else 0

    running.until(lambda: saved() > 500)
    running.signal(signal.SIGKILL)
    running.process.wait(PATIENCE)
    steps = read_manifest(checkpoint).steps
    again = artos("run", "--resume", "off", "--json", "--total-steps", steps + 1_000)
    assert again.status == 0, again.err
    assert again.summary["steps"] >= steps + 1_000
    assert again.summary["updates"] * DRAWN == pytest.approx(
        8 * (again.summary["steps"] - 1_000), rel=0.2
    )


@pytest.mark.long
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT], ids=["killed", "stopped"])
def test_a_run_that_saves_its_model_only_goes_on_with_its_buffer(
    start: Callable[..., Artos], artos: Callable[..., Outcome], home: Path, how: signal.Signals
) -> None:
    """Killed, its memory is kept; stopped, it saves its rows; neither is left once it goes on."""
    running = start(*RUN, "--set", "total_steps=1000000")
    checkpoint = home / "off" / "checkpoint"
    running.until(
        lambda: (checkpoint / "manifest.json").exists() and read_manifest(checkpoint).steps > 3_000
    )
    running.signal(how)
    running.process.wait(PATIENCE)
    before = read_manifest(checkpoint)
    assert (before.rows_file is None) == (how == signal.SIGKILL)
    assert [*shm_root().glob(f"{PREFIX}off.*")] == [] or how == signal.SIGKILL
    if how == signal.SIGKILL:
        other = artos(*RUN[:3], "--total-steps", 1_200, "--run-dir", "other")
        assert other.status == 0, "another run leaves the rows of this one alone"
        refused = artos("run", "--resume", "off", "--env", "Acrobot-v1")
        assert refused.status == 2, "so does a resume that is refused"
    again = artos("run", "--resume", "off", "--json", "--total-steps", before.steps + 1_000)
    assert again.status == 0, again.err
    assert "replay buffer: it is empty" not in again.err
    assert "random streams of samplers, and the number of draws" in again.err
    assert again.summary["steps"] == before.steps + 1_000
    assert again.summary["lag_max"] > again.summary["updates"] - before.updates
    assert again.summary["usage"]["cpu_seconds_held"] > before.usage["cpu_seconds_held"] > 0
    assert read_manifest(checkpoint).rows_file is None
    assert [*shm_root().glob(f"{PREFIX}off.*")] == []


@pytest.mark.long
@pytest.mark.parametrize("what", ["rows", "priorities"])
def test_what_cannot_be_read_is_told_of_where_only_the_model_is_to_be_saved(
    start: Callable[..., Artos], artos: Callable[..., Outcome], home: Path, what: str
) -> None:
    running = start(*RUN, "--set", "total_steps=1000000", "--set", "prioritised=true")
    checkpoint = home / "off" / "checkpoint"
    running.until(
        lambda: (checkpoint / "manifest.json").exists() and read_manifest(checkpoint).steps > 3_000
    )
    running.signal(signal.SIGINT)
    running.process.wait(PATIENCE)
    (file,) = checkpoint.glob(f"{what}-*")
    file.write_bytes(file.read_bytes()[:-1])
    resume = ("run", "--resume", "off", "--json", "--total-steps", 10_000)
    refused = artos(*resume, *ALL)
    assert refused.status == 2
    assert f"{file.name} is damaged or truncated" in refused.err
    again = artos(*resume)
    assert again.status == 0, again.err
    told = " ".join(again.err.split())
    assert ("replay buffer: it is empty" in told) == (what == "rows")
    assert ("the priorities of rows: all are drawn as new ones" in told) == (what == "priorities")
    assert "damaged or truncated" in told


@pytest.mark.long
def test_what_does_not_fit_is_refused_and_can_be_left_out(
    artos: Callable[..., Outcome], home: Path
) -> None:
    assert artos(*RUN, *ALL, "--inline").status == 0
    (states,) = (home / "off" / "checkpoint").glob("states-*")
    resume = ("run", "--resume", "off", "--json", "--total-steps", "6400")
    other = artos(*resume, "--set", "prioritised=true")
    assert other.status == 2
    assert "does not fit other triggers" in other.err
    states.write_bytes(states.read_bytes()[:-1])
    damaged = artos(*resume)
    assert damaged.status == 2
    assert f"{states.name} is damaged or truncated" in damaged.err
    without = artos(*resume, "--set", "checkpoint=model")
    assert without.status == 0, without.err
    assert without.summary["steps"] >= 6_400


@pytest.mark.long
def test_environments_that_cannot_be_saved_begin_anew_and_are_told_of(
    artos: Callable[..., Outcome], home: Path
) -> None:
    (home / "sealed.py").write_text(
        "import threading\n"
        "import gymnasium as gym\n"
        "def make():\n"
        "    env = gym.make('CartPole-v1')\n"
        "    env.unwrapped.engine = threading.Lock()\n"
        "    return env\n"
    )
    size = ("--set", "steps=32", "--actors", "1", "--run-dir", "r", "--json")
    run = ("run", "ppo", "--env", "sealed:make", "--inline", *ALL, *size)
    assert artos(*run, "--total-updates", "3").status == 0
    again = artos("run", "--resume", "r", "--json", "--total-updates", "6")
    assert again.status == 0, again.err
    assert "actor 0 starts again: TypeError: cannot pickle '_thread.lock' object" in again.err
    assert again.summary["updates"] == 6
