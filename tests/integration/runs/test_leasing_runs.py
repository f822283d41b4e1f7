"""Real runs that share a device of their machine's pool: hung, killed and stopped ones, too."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from named import LEARNER
from real_runs import Artos, journal, updates

from artos.pool.folder import pool_folder
from artos.pool.view import clean, read_pool

pytestmark = pytest.mark.processes

HERE = Path(__file__).parent
ROUND = 16
"""Steps for one update."""
MOST = ROUND * 5
ENDLESS = ROUND * 100_000


class Run:
    """A run in a folder of its own, with files that its learner heeds."""

    def __init__(self, folder: Path, *arguments: object, hangs: bool = False) -> None:
        self.folder = folder
        folder.mkdir()
        for name in ("toys_to_run.py", "faulty_algorithms.py", "hanging.py"):
            shutil.copy(HERE / name, folder)
        if hangs:
            (folder / "hang").touch()
        fixed = (
            "run",
            "hanging.py:workload",
            "--device",
            "pool",
            "--run-dir",
            folder / folder.name,
        )
        self.artos = Artos(folder, (*fixed, "--json", *arguments))

    @property
    def updates(self) -> int:
        return updates(self.folder / self.folder.name)

    @property
    def begun(self) -> bool:
        return (self.folder / "begun").exists()

    def go_on(self) -> None:
        (self.folder / "hang").unlink()

    def summary(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(
            (self.folder / self.folder.name / "summary.json").read_text()
        )
        return found


Start = Callable[..., Run]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a run of that name."""
    started: list[Run] = []

    def begin(name: str, *arguments: object, steps: int = MOST, hangs: bool = False) -> Run:
        limit = ("--total-steps", steps)
        started.append(Run(tmp_path / name, *limit, *arguments, hangs=hangs))
        return started[-1]

    yield begin
    for each in started:
        each.artos.end()
    Artos(tmp_path, ("clean",)).wait()
    clean()
    assert not pool_folder().exists()


def waiting() -> list[str]:
    """The names of the runs that wait for the device."""
    return [name_of(each.workload) for each in read_pool().queue if each.what == "cpu:0"]


def name_of(workload: str) -> str:
    return workload.partition(".")[0]


def test_two_runs_take_turns(start: Start) -> None:
    one, two = start("one", "--weight", "2", steps=ENDLESS), start("two", steps=ENDLESS)
    one.artos.until(lambda: min(one.updates, two.updates) > 3)
    kinds = [each for each in read_pool().workloads if each.kind == "device"]
    accounts = {name_of(each.workload): each for each in kinds}
    assert accounts.keys() == {"one", "two"}
    assert (accounts["one"].weight, accounts["two"].weight) == (2.0, 1.0)
    assert min(each.held_seconds for each in accounts.values()) > 0
    one.artos.process.kill()
    before = two.updates
    two.artos.until(lambda: two.updates > before + 3)
    two.artos.signal(signal.SIGINT)
    assert two.artos.wait().status == 130
    assert two.summary()["device"] == "cpu:0"
    (ready,) = [line for line in journal(two.folder / "two") if line.get("ready") == "learner"]
    assert ready["device"] == "cpu:0"


@pytest.mark.long
def test_a_learner_killed_in_mid_lease(start: Start) -> None:
    """The next one runs; it is started again and has its turn after that."""
    first = start("first", hangs=True)
    first.artos.until(lambda: first.begun)
    second = start("second")
    second.artos.until(lambda: waiting() == ["second"])
    first.artos.kill(LEARNER)
    second.artos.until(lambda: second.begun)
    first.go_on()
    for each in (first, second):
        outcome = each.artos.wait()
        assert outcome.status == 0, outcome.err
    assert (first.summary()["restarts"], second.summary()["restarts"]) == (1, 0)
    assert second.summary()["shares"]["learner.wait_for_device"] > 0
    assert first.summary()["updates"] == second.summary()["updates"] == 5


@pytest.mark.long
def test_a_learner_that_hangs_keeps_nobody_waiting(start: Start) -> None:
    """Longer than its lease; its update counts, and it has its turns again."""
    hung = start("hung", steps=ENDLESS)
    hung.artos.until(lambda: hung.updates > 3)
    (hung.folder / "hang").touch()
    other = start("other")
    assert other.artos.wait().status == 0
    before = hung.updates
    hung.go_on()
    hung.artos.until(lambda: hung.updates > before + 3)
    hung.artos.signal(signal.SIGINT)
    assert hung.artos.wait().status == 130
    assert (hung.summary()["leases_lost"], hung.summary()["restarts"]) == (1, 0)
    assert "too long for its lease: meanwhile cpu:0 was given" in hung.artos.said


@pytest.mark.long
def test_a_run_that_waits_can_be_stopped(start: Start) -> None:
    first = start("first", hangs=True)
    first.artos.until(lambda: first.begun)
    second = start("second")
    second.artos.until(lambda: waiting() == ["second"])
    second.artos.signal(signal.SIGINT)
    outcome = second.artos.wait()
    assert outcome.status == 130, outcome.err
    assert (second.summary()["outcome"], second.summary()["updates"]) == ("interrupted", 0)
    assert not second.begun
    assert waiting() == []
    first.go_on()
    assert first.artos.wait().status == 0
