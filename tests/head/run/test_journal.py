"""What the journal says of a run beside its firings: who came up and how, and what work took."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from elastic_loop import SECONDS, full_batch, troupe
from named import acting

from artos.protocol.invocations import Ready
from artos.specs.actor_count import Manual
from deploy.why.history import History
from head.run.concerns.scaling import Scaling
from triggers.journal import read


def lines(folder: Path, key: str) -> list[dict[str, Any]]:
    return [line for line in read(folder / "journal.jsonl") if key in line]


def test_who_is_ready_how_and_after_how_long(tmp_path: Path) -> None:
    with troupe(Manual(1, 2), full_batch(), 6, tmp_path) as run:
        run.begin()
        run.sleepers |= {*acting(1)}
        run.coordinator.concern(Scaling).scale(2)
        run.clock.advance(1.5)
        run.wake(1)
        run.run()
    assert lines(tmp_path, "ready") == [
        {"t": 0.0, "ready": "learner", "start": "cold", "seconds": 0.0},
        {"t": 0.0, "ready": "actor 0", "start": "cold", "seconds": 0.0},
        {"t": 1.5, "ready": "actor 1", "start": "clone", "seconds": 1.5},
    ]


def test_who_is_begun_anew_without_having_died_is_a_restart(tmp_path: Path) -> None:
    """As an actor whose image was lost: whoever keeps its process makes another by itself."""
    with troupe(Manual(2, 2), full_batch(), 6, tmp_path) as run:
        run.begin()
        run.coordinator.receive(*acting(1), Ready(0.0, start="clone"))
        run.run()
        assert run.coordinator.monitor.restarts == 1
    assert lines(tmp_path, "ready")[3:] == [
        {"t": 0.0, "ready": "actor 1", "start": "clone", "anew": True}
    ]


def test_who_died_is_one_restart_and_ready_once_more(tmp_path: Path) -> None:
    with troupe(Manual(2, 2), full_batch(), 6, tmp_path) as run:
        run.begin()
        run.clock.advance(1.0)
        run.kill(1)
        run.clock.advance(2.0)
        run.run()
        assert run.coordinator.monitor.restarts == 1
    (died,) = lines(tmp_path, "died")
    assert (died["t"], died["died"]) == (1.0, "actor 1")
    assert lines(tmp_path, "ready")[3:] == [
        {"t": 3.0, "ready": "actor 1", "start": "clone", "seconds": 2.0}
    ]
    assert History().read(read(tmp_path / "journal.jsonl")).restarts == {"actor 1": [(1.0, 3.0)]}


def test_every_round_and_every_update_says_what_it_took(tmp_path: Path) -> None:
    with troupe(Manual(2, 2), full_batch(), 6, tmp_path) as run:
        run.begin()
        run.run()
    done = lines(tmp_path, "done")
    assert len(done) == 6 + 3
    assert {line["seconds"] for line in done} == {SECONDS}
    times = [line.get("times") for line in done if line["by"] == "learner"]
    assert times == [{"gather": SECONDS / 4}] * 3


def test_a_round_whose_actor_died_before_it_could_say_so_has_no_seconds(tmp_path: Path) -> None:
    with troupe(Manual(1, 1), full_batch(), 2, tmp_path) as run:
        run.begin()
        run.act_and_die(0)
        run.run()
    first = lines(tmp_path, "done")[0]
    assert first["recovered"]
    assert "seconds" not in first


def test_how_many_take_part_since_when_and_how_many_did_before(tmp_path: Path) -> None:
    with troupe(Manual(2, 2), full_batch(), 6, tmp_path) as run:
        run.begin()
        run.coordinator.concern(Scaling).scale(1)
        run.clock.advance(1.5)
        run.run()
    assert lines(tmp_path, "before") == [{"t": 1.5, "actors": 1, "before": 2, "version": 1}]
