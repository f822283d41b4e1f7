"""What goes wrong in a run: exit status 1, the culprit named, what was learned kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from named import acting
from real_runs import TINY, Artos, Outcome, journal, shared_memory, updates

from artos.buffer.layout import LAYOUT_VERSION
from artos.buffer.shm_folder import PREFIX
from artos.errors import ActorFailed, LearnerFailed
from artos.specs.members import ACTORS, LEARNER, Member
from artos.system.exit_report import ExitReport
from artos.system.shm import shm_root
from deploy.local.run import run
from head.run.concerns.failures import FailureLimits, Failures
from head.run.request import Request

SETTINGS = {"envs": 1, "steps": 16, "minibatches": 1, "epochs": 1, "actors": 1, "total_steps": 200}


def fails(home: Path, workload: str = "ppo", **settings: Any) -> tuple[str, dict[str, Any]]:
    """Run inline what must fail; returns the message and the summary."""
    request = Request(workload, settings, inline=True, quiet=True, folder=home, run_dir=home / "r")
    with pytest.raises((ActorFailed, LearnerFailed)) as caught:
        run(request)
    assert not shared_memory()
    summary: dict[str, Any] = json.loads((home / "r" / "summary.json").read_text())
    assert summary["outcome"] == "failed"
    return str(caught.value), summary


def manifest(run_folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run_folder / "checkpoint" / "manifest.json").read_text())
    return found


@pytest.mark.long
@pytest.mark.processes
def test_environment_that_raises_in_an_episode(artos: Callable[..., Outcome], home: Path) -> None:
    outcome = artos(
        "run", "ppo", "--env", "toys_to_run:Raising", "--run-dir", "r", "--actors", 1, "--json",
        *TINY,
    )  # fmt: skip
    assert outcome.status == 1
    assert not outcome.out
    for text in (
        "actor 0 failed at step 135 (restarted 3 times)", "the physics exploded",
        "in misbehave",
    ):  # fmt: skip
        assert text in outcome.err
    summary = json.loads((home / "r" / "summary.json").read_text())
    assert summary["restarts"] == 3
    assert not shared_memory()


def test_environment_that_raises_names_the_step(home: Path) -> None:
    """Rounds of 64: the 40th step of each new environment is in the first round."""
    message, _ = fails(home, env="toys_to_run:Raising", **{**SETTINGS, "steps": 64})
    assert "actor 0 failed at step 39 (restarted 3 times)" in message
    assert "RuntimeError: the physics exploded" in message


@pytest.mark.long
@pytest.mark.processes
def test_environment_that_recovers(artos: Callable[..., Outcome]) -> None:
    outcome = artos(
        "run", "ppo", "--env", "toys_to_run:RaisingTwice", "--actors", 1, "--json",
        "--total-steps", 320, *TINY,
    )  # fmt: skip
    assert outcome.status == 0, outcome.err
    assert (outcome.summary["steps"], outcome.summary["restarts"]) == (320, 2)
    assert "actor 0 is restarted (2 in a row)" in outcome.err


CHATTY = """
import logging.config
import counting

logging.config.dictConfig({
    "version": 1,
    "formatters": {"mine": {"format": "mine: %(message)s"}},
    "handlers": {"mine": {"class": "logging.StreamHandler", "formatter": "mine"}},
    "root": {"handlers": ["mine"], "level": "INFO"},
})
tripped = []

class Tripping(counting.Counter):
    def step(self, action):
        if self.shown == 20 and not tripped:
            tripped.append(True)
            logging.getLogger("user").info("I trip")
            raise RuntimeError("tripped")
        return super().step(action)

def workload():
    made = counting.workload(1, 160)
    made.actor.env = "chatty:Tripping"
    return made
"""


@pytest.mark.processes
def test_a_restart_is_logged_once_and_apart_from_what_users_log(
    start: Callable[..., Artos], home: Path
) -> None:
    """In one process with user code, which sets up logging as it likes."""
    (home / "chatty.py").write_text(CHATTY)
    outcome = start("run", "chatty.py:workload", "--inline", "--run-dir", "r", "--json").wait()
    assert outcome.status == 0, outcome.err
    restart = "actor 0 is restarted (1 in a row): RuntimeError: tripped"
    ours = [line for line in outcome.err.splitlines() if "restarted" in line]
    assert ours == [restart]
    users = [line for line in outcome.err.splitlines() if "I trip" in line]
    assert users == ["mine: I trip"]
    log = (home / "r" / "logs" / "run.log").read_text().splitlines()
    assert log.count(restart) == 1
    assert not any("I trip" in line for line in log)


def test_nan_observation_names_actor_step_and_key(home: Path) -> None:
    message, _ = fails(home, env="toys_to_run:NotANumber", **{**SETTINGS, "steps": 64})
    assert "data key 'observations', actor 0, step 39" in message
    assert "toys_to_run:NotANumber: environment 0 returned nan at [1]" in message


@pytest.mark.long
@pytest.mark.processes
def test_environment_that_hangs(artos: Callable[..., Outcome]) -> None:
    outcome = artos(
        "run", "ppo", "--env", "toys_to_run:Hanging", "--actors", 1, "--json", "--deadline", 4,
        *TINY,
    )  # fmt: skip
    assert outcome.status == 1
    assert "actor 0 failed at step 128 (restarted 3 times)" in outcome.err
    assert "no answer to actors.sample" in outcome.err
    assert "within 4 s" in outcome.err
    assert "raise --deadline" in outcome.err


@pytest.mark.long
@pytest.mark.processes
def test_environment_that_crashes_the_process(artos: Callable[..., Outcome]) -> None:
    outcome = artos("run", "ppo", "--env", "toys_to_run:Crashing", "--actors", 1, "--json", *TINY)
    assert outcome.status == 1
    assert "killed by signal" in outcome.err
    assert "Fatal Python error" in outcome.err
    assert "toys_to_run.py" in outcome.err, "its log says where"
    assert not shared_memory()


def test_environment_that_fails_to_reset(home: Path) -> None:
    message, _ = fails(home, env="toys_to_run:FailingToReset", **SETTINGS)
    assert "actor 0 failed" in message
    assert "no reset today" in message


@pytest.mark.processes
def test_nan_loss_keeps_the_weights_before_it(artos: Callable[..., Outcome], home: Path) -> None:
    outcome = artos("run", "faulty_algorithms.py:nan_loss", "--run-dir", "r", "--json")
    assert outcome.status == 1
    assert "loss is nan in the update after version 2" in outcome.err
    assert "the last good weights are kept" in outcome.err
    assert manifest(home / "r")["version"] == 2
    assert json.loads((home / "r" / "summary.json").read_text())["restarts"] == 0


def test_learner_that_raises(home: Path) -> None:
    message, summary = fails(home, "faulty_algorithms.py:raising_learner")
    assert "the learner failed after version 2 (restarted 3 times)" in message
    assert "RuntimeError: my loss is wrong" in message
    assert (summary["restarts"], summary["updates"]) == (3, 2)
    assert manifest(home / "r")["version"] == 2


@pytest.mark.long
@pytest.mark.processes
def test_block_of_another_layout_version(start: Callable[..., Artos], home: Path) -> None:
    (home / "slow").touch()
    endless = ("--total-steps", 10_000_000)
    artos = start("run", "counting.py:workload", "--run-dir", "r", *endless, "--json")
    artos.until(lambda: updates(home / "r"))
    (folder,) = shm_root().glob(f"{PREFIX}*")
    words = np.memmap(folder / "actor-0", np.int64, "r+", shape=(4,))
    words[1] = LAYOUT_VERSION + 1
    artos.kill(*acting(0))
    outcome = artos.wait()
    assert outcome.status == 1
    found, expected = f"layout {LAYOUT_VERSION + 1}", f"layout {LAYOUT_VERSION}"
    assert f"has {found}, this ARTOS reads {expected}" in outcome.err
    assert any(line.get("died") == "actor 0" for line in journal(home / "r"))


def test_failures_in_a_row() -> None:
    failures = Failures(FailureLimits(failures=3, kills=5, calm=2))
    raised, killed = ExitReport("it raised"), ExitReport.of_process(1, -9, "")
    actor = Member(ACTORS, 0)
    assert [failures.count(actor, raised, 7) for _ in range(3)] == [1, 2, 3]
    failures.answered(actor)
    failures.answered(actor)
    assert [failures.count(actor, raised, 7) for _ in range(3)] == [1, 2, 3]
    failures.answered(actor)
    assert [failures.count(actor, killed, 7) for _ in range(5)] == [1, 2, 3, 4, 5]
    with pytest.raises(ActorFailed, match=r"actor 0 failed at step 7 \(restarted 3 times\)"):
        failures.count(actor, raised, 7)
    with pytest.raises(LearnerFailed, match="after version 4"):
        failures.count(Member(LEARNER, 0), ExitReport("NaN", fatal=True), 4)


@pytest.mark.parametrize(("status", "own"), [(-9, False), (-15, False), (-11, True), (3, True)])
def test_whose_doing_an_end_was(status: int, own: bool) -> None:
    assert ExitReport.of_process(1, status, "last words").own is own
