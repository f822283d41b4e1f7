"""A workload taken from the records of a run, and simulated."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from inline_runs import finished, registered

from artos.errors import Refused
from deploy.simulation.cluster import Cluster
from deploy.simulation.durations import Recorded
from deploy.simulation.recorded import recorded
from head.records.shape import Shape
from triggers.data_key import DataKeyTrigger
from triggers.journal import MOST_BYTES, Journal, read
from triggers.journal_parts import parts
from triggers.primitives import ObjectKeyTrigger

TABLE = {
    "learner.update": DataKeyTrigger(("rows",), size=8).encode(),
    "actors.sample": ObjectKeyTrigger().encode(),
}
LINES = [
    {"t": 0.5, "firing": 1, "trigger": "actors.sample", "version": 0},
    {"t": 0.5, "ready": "learner", "start": "fork", "seconds": 0.3},
    {"t": 0.5, "ready": "actor 0", "start": "fork", "seconds": 0.3},
    {"t": 1.0, "ready": "actor 1", "start": "fork", "seconds": 0.8},
    {"t": 1.0, "ready": "actor 2", "start": "fork", "seconds": 0.8},
    {"t": 2.0, "done": 1, "by": "actor 0", "version": 0, "seconds": 1.4},
    {"t": 3.0, "done": 1, "by": "actor 1", "version": 0, "seconds": 0.9},
    # Two slots: actor 2 had one from 2.0 on, and was woken first.
    {"t": 3.5, "done": 1, "by": "actor 2", "version": 0, "seconds": 1.2},
    {"t": 3.5, "firing": 2, "trigger": "learner.update", "version": 0},
    {"t": 4.5, "firing": 3, "trigger": "actors.sample", "version": 1},
    # Its weights were there before its answer was read.
    {"t": 4.7, "done": 2, "by": "learner", "version": 1, "seconds": 0.9},
]


def write(
    folder: Path, lines: list[dict[str, Any]] = LINES, *, most: int = MOST_BYTES, **changes: Any
) -> Path:
    folder.mkdir()
    shape = Shape(3, 1, 8, TABLE, total_updates=1)
    config = {
        "workload": "mine.py:mine", "folder": "/mine", "algorithm": "mine",
        "settings": {"slots": 2}, "host": {"cpus": 4},
        "plan": msgspec.to_builtins(shape),
    }  # fmt: skip
    summary = {
        "outcome": "done", "nodes": [], "wall_seconds": 6.7, "actors_by_update": [[1, 3]],
        "steps": 1_000_000, "updates": 1_000,
    }  # fmt: skip
    files = {"config.json": config, "summary.json": summary}
    for name, content in files.items():
        both = content | {k: v for k, v in changes.items() if k in content or name == CONFIG}
        (folder / name).write_text(json.dumps(both))
    journal = Journal(folder / "journal.jsonl", most=most)
    for line in lines:
        journal.write(line)
        journal.flush()
    journal.close()
    return folder


CONFIG = "config.json"


def test_times_are_those_with_a_slot(tmp_path: Path) -> None:
    (found,) = recorded([write(tmp_path / "run")])
    rounds, updates = (found.durations[target] for target in ("actors.sample", "learner.update"))
    assert isinstance(rounds, Recorded)
    assert isinstance(updates, Recorded)
    assert sorted(rounds.seconds) == pytest.approx([1.5, 1.5, 2.0])
    assert updates.seconds == pytest.approx([1.0])
    assert found.starts.process == pytest.approx(2.0)
    assert found.starts.learner == pytest.approx(0.5)
    assert found.starts.actors == pytest.approx((0.5, 1.0, 1.0))


def test_a_learner_that_leases_a_device_is_believed_and_weights_are_kept(tmp_path: Path) -> None:
    settings = {"slots": 2, "device": "pool", "weight": 2.0, "priority": 3}
    (found,) = recorded([write(tmp_path / "run", settings=settings)])
    updates = found.durations["learner.update"]
    assert isinstance(updates, Recorded)
    assert updates.seconds == pytest.approx([0.9])  # 1.0 with what it waited for
    assert (found.weight, found.priority) == (2.0, 3)


def test_on_other_nodes_actors_are_believed(tmp_path: Path) -> None:
    (found,) = recorded([write(tmp_path / "run", nodes=["n1"])])
    rounds = found.durations["actors.sample"]
    assert isinstance(rounds, Recorded)
    assert sorted(rounds.seconds) == pytest.approx([0.9, 1.2, 1.4])


def test_answers_that_were_read_late_count_from_when_the_next_began(tmp_path: Path) -> None:
    fires = {"trigger": "learner.update", "version": 0}
    answer = {"by": "learner", "version": 1, "seconds": 0.4}
    late = [{"t": 3.5, "firing": 4, **fires}, {"t": 4.7, "done": 4, **answer}]
    (found,) = recorded([write(tmp_path / "run", [*LINES, *late])])
    updates = found.durations["learner.update"]
    assert isinstance(updates, Recorded)
    # Both were read at 4.7; the first was over at 4.3, when the second began.
    assert updates.seconds == pytest.approx([0.8, 0.4], abs=0.11)
    assert sum(updates.seconds) == pytest.approx(4.7 - 3.5, abs=0.11)


def test_the_number_of_actors_changes_as_it_did(tmp_path: Path) -> None:
    (found,) = recorded([write(tmp_path / "run", actors_by_update=[[2, 1], [3, 3]])])
    assert found.plan.at_work.at(1) == 1
    assert found.plan.at_work.at(2) == 3


def test_every_fault_of_every_folder_is_told(tmp_path: Path) -> None:
    lacks = write(tmp_path / "lacks")
    (lacks / "summary.json").unlink()
    old = write(tmp_path / "old", plan=None)
    resumed = write(tmp_path / "resumed", resumed=[{}])
    idle = write(tmp_path / "idle", lines=LINES[:4])
    broken = write(tmp_path / "broken")
    (broken / "config.json").write_text("{")
    with pytest.raises(Refused) as refused:
        recorded([tmp_path, lacks, old, resumed, idle, broken])
    words = ["give the folder", "not ended", "config.json", "resumed", "no update", "damaged"]
    for fault, word in zip(refused.value.faults, words, strict=True):
        assert word in fault


@pytest.mark.parametrize(
    ("workload", "settings", "ahead"),
    [
        ("ppo", {"actors": 3, "total_updates": 4, "steps": 32}, 0.0),
        # One round more may be under way, and who replays may be a slack ahead.
        ("ppo", {"actors": 3, "total_updates": 4, "steps": 32, "max_lag": 1}, 0.25),
        ("ppo", {"actors": 2, "total_updates": 3, "pipeline": "full", "minibatches": 1}, 0.0),
        ("dqn", {"actors": 2, "total_updates": 40, "after": 64}, 0.2),
    ],
)
def test_a_run_of_today_does_as_much_when_it_is_simulated(
    tmp_path: Path, workload: str, settings: dict[str, Any], ahead: float
) -> None:
    registration = registered(workload, tmp_path, env="CartPole-v1", threads=1, **settings)
    run = finished(registration, tmp_path)
    lines, plan = [*read(run.journal)], msgspec.to_builtins(Shape.of(registration.plan))
    whole, divided = (
        write(tmp_path / name, lines, most=most, plan=plan, actors_by_update=[])
        for name, most in (("whole", MOST_BYTES), ("divided", 1000))
    )
    assert parts(divided / "journal.jsonl")
    assert recorded([divided]) == recorded([whole])
    found = Cluster(1, 2).run(recorded([divided]))
    (simulated,) = found.usage
    assert simulated.updates == run.coordinator.progress.updates == settings["total_updates"]
    assert simulated.steps == pytest.approx(run.coordinator.steps, rel=ahead + 1e-9)
