"""PPO with a number of actors that changes, from its settings to what it learned from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import inline_runs
import pytest
from helpers import unrolled
from inline_runs import finished

from artos.errors import Refused
from artos.specs.actor_count import NoiseScale, Schedule
from head.run.request import reference_of
from triggers.journal import read
from triggers.registration import Registration, prepare

SMALL = {"envs": 1, "steps": 8, "hidden": [8], "epochs": 1, "minibatches": 2}


def registered(folder: Path, **settings: Any) -> Registration:
    return inline_runs.registered("ppo", folder, **SMALL | settings)


@pytest.mark.parametrize("lag", [0, 1])
def test_a_schedule_from_the_command_line_is_kept_update_by_update(
    lag: int, tmp_path: Path
) -> None:
    rounds = [1, 1, 3, 3, 3, 2, 2, 2]
    batches = [1] * lag + rounds[: len(rounds) - lag]
    registration = registered(
        tmp_path, actors="0:1,2:3,5:2", max_lag=lag, total_steps=8 * sum(batches)
    )
    assert (registration.plan.actors, registration.plan.scaling) == (
        3, Schedule({0: 1, 2: 3, 5: 2})
    )  # fmt: skip
    coordinator = finished(registration, tmp_path).coordinator
    handed = [x for x in read(tmp_path / "journal.jsonl") if x.get("trigger") == "learner.update"]
    assert [len(line["claims"]) for line in handed] == batches
    assert unrolled(coordinator.monitor.actors_by_update) == rounds
    assert (coordinator.monitor.rows_lost, coordinator.monitor.rows_stale) == (0, 0)
    assert coordinator.progress.consumed == coordinator.steps == 8 * sum(batches)


def test_the_journal_has_what_each_round_and_each_update_took(tmp_path: Path) -> None:
    finished(registered(tmp_path, actors=2, total_steps=64), tmp_path)
    done = [line for line in read(tmp_path / "journal.jsonl") if "done" in line]
    rounds = [line["seconds"] for line in done if line["by"] != "learner"]
    updates = [(line["seconds"], line["times"]) for line in done if line["by"] == "learner"]
    assert (len(rounds), len(updates)) == (8, 4)
    assert min(rounds) > 0
    for seconds, times in updates:
        assert {"gather", "learn", "publish"} <= times.keys()
        work = sum(spent for kind, spent in times.items() if kind != "wait")
        assert work == pytest.approx(seconds, abs=1e-5)  # they are rounded


def test_the_gradient_noise_scale_is_measured_where_it_decides(tmp_path: Path) -> None:
    registration = registered(tmp_path, actors="noise_scale:1..3", total_steps=400)
    assert registration.plan.scaling == NoiseScale(1, 3)
    coordinator = finished(registration, tmp_path).coordinator
    assert coordinator.monitor.metrics["noise_scale"] >= 0
    counts = unrolled(coordinator.monitor.actors_by_update)
    assert set(counts) <= {1, 2, 3}
    assert counts[:5] == [1] * 5
    assert coordinator.progress.consumed == coordinator.steps


def test_elsewhere_it_is_not(tmp_path: Path) -> None:
    registration = registered(tmp_path, actors=1, total_steps=32)
    coordinator = finished(registration, tmp_path).coordinator
    assert "noise_scale" not in coordinator.monitor.metrics


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"actors": "many"}, "actors='many': write a number"),
        ({"actors": "3:4"}, "begins with update 0"),
        ({"actors": "0"}, "actors must be at least 1, not 0"),
        ({"actors": 0}, "actors must be at least 1, not 0"),
        ({"actors": "plateau:4..2"}, "4..2 holds no number"),
        ({"actors": "0:4,5:3", "minibatches": 16}, "3 actors x 1 envs x 8 steps = 24 rows do not"),
        ({"actors": "2..4", "minibatches": 16}, "3 actors x 1 envs"),
        ({"actors": "noise_scale:1..2", "minibatches": 1}, "between minibatches: use 2 or more"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_runs(
    settings: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(Refused) as refused:
        registered(tmp_path, **settings)
    assert any(words in fault for fault in refused.value.faults), refused.value.faults


OWN = """
from artos import Workload
from artos.specs.actor_count import ActorsSetting, Schedule
from triggers.algorithms.ppo import workload as ppo


def annotated(actors: ActorsSetting = 2):
    return ppo(actors=actors)


def plain(actors: int = 2):
    return ppo(actors=actors)


given = ppo(actors=Schedule({0: 1, 3: 5}))
"""


def test_a_users_own_workload_takes_all_forms_where_it_says_so(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)

    def plan(name: str, **settings: Any):  # type: ignore[no-untyped-def]
        return prepare(reference_of(f"own.py:{name}", settings, tmp_path), 1, apart=False).plan

    assert plan("annotated", actors="0:2,4:6").scaling == Schedule({0: 2, 4: 6})
    assert plan("given").scaling == Schedule({0: 1, 3: 5})
    assert plan("given", actors='{"0": 2, "4": 3}').scaling == Schedule({0: 2, 4: 3})
    with pytest.raises(Refused, match="setting actors='0:2,4:6': write a whole number"):
        plan("plain", actors="0:2,4:6")
