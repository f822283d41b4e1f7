from __future__ import annotations

import json
import multiprocessing
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from helpers import PATIENCE
from hypothesis import given
from hypothesis import strategies as st
from records_writer import Start

from artos.errors import CheckpointFault, Refused, RunExists
from artos.protocol.usage import Usage
from artos.runs import checkpoint
from artos.runs.run_config import is_own
from head.records.run_folder import RunFolder, default_path, writing
from head.records.status import Status, Summary
from triggers.journal import Journal

CONFIG = {
    "workload": "ppo", "settings": {"lr": 0.001}, "folder": "", "algorithm": "ppo",
    "env": "CartPole-v1", "seed": 3,
}  # fmt: skip


def written(run: Path) -> dict[str, Any]:
    """A run's configuration without its seal."""
    config: dict[str, Any] = msgspec.json.decode((run / "config.json").read_bytes())
    del config["seal"]
    return config


MANIFEST = checkpoint.Manifest(
    workload="ppo", env="CartPole-v1", seed=3, version=1, steps=10, updates=1
)


def saved_run(path: Path) -> Path:
    with RunFolder.create(path, CONFIG) as folder:
        checkpoint.save(folder.checkpoint, {"w": np.ones(3)}, MANIFEST)
    return path


def begin_journal(run: RunFolder) -> None:
    """With a packed part and one that is not."""
    journal = Journal(run.journal, most=1)
    for number in range(4):
        journal.write({"n": number})
        journal.flush()
    journal.close()


def test_create_makes_the_folder_and_keeps_the_config(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path / "a" / "b", CONFIG) as folder:
        assert written(folder.path) == CONFIG
        assert folder.events.is_dir()
        assert folder.checkpoint.is_dir()
        assert folder.logs.is_dir()
        assert not folder.resumed


def test_a_second_create_is_refused_as_live_then_as_taken(tmp_path: Path) -> None:
    first = RunFolder.create(tmp_path, CONFIG)
    with pytest.raises(RunExists) as live:
        RunFolder.create(tmp_path, CONFIG)
    first.close()
    first.close()
    with pytest.raises(RunExists) as taken:
        RunFolder.create(tmp_path, {})
    assert (live.value.live, taken.value.live) == (True, False)
    assert written(tmp_path) == CONFIG


@pytest.mark.processes
def test_a_live_lock_is_seen_across_processes_and_dies_with_its_owner(
    tmp_path: Path, start: Start
) -> None:
    path = saved_run(tmp_path / "other")
    holder = start("hold", tmp_path / "run")
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    for attempt in (RunFolder.resume, lambda p: RunFolder.create(p, CONFIG)):
        with pytest.raises(RunExists) as caught:
            attempt(tmp_path / "run")
        assert caught.value.live
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with pytest.raises(RunExists) as after:
        RunFolder.create(tmp_path / "run", CONFIG)
    assert not after.value.live
    RunFolder.resume(path).close()


def test_resume_gives_the_config_and_takes_the_lock(tmp_path: Path) -> None:
    path = saved_run(tmp_path / "run")
    with RunFolder.resume(path) as folder:
        assert folder.config == CONFIG | {"seal": folder.config["seal"]}
        assert folder.resumed
        with pytest.raises(RunExists):
            RunFolder.resume(path)
    RunFolder.resume(path).close()


def test_resume_says_what_is_missing_and_leaves_the_folder_unlocked(tmp_path: Path) -> None:
    with pytest.raises(CheckpointFault, match="there is no run"):
        RunFolder.resume(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()
    RunFolder.create(tmp_path / "fresh", CONFIG).close()
    for _ in range(2):
        with pytest.raises(CheckpointFault, match="before its first checkpoint"):
            RunFolder.resume(tmp_path / "fresh")
    path = saved_run(tmp_path / "damaged")
    (path / "config.json").write_text('{"algorithm": "pp')
    with pytest.raises(CheckpointFault, match=r"config\.json is damaged"):
        RunFolder.resume(path)


def test_a_folder_that_cannot_be_made_is_refused_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(Refused, match="choose another --run-dir"):
        RunFolder.create(tmp_path / "file" / "run", CONFIG)


def test_discard_leaves_nothing_of_ours_and_everything_of_others(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run", CONFIG)
    run.log.write_text("noted before it was refused")
    begin_journal(run)
    run.discard()
    assert not (tmp_path / "run").exists()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "journal-notes.jsonl").write_text("keep")
    run = RunFolder.create(tmp_path / "mine", CONFIG)
    begin_journal(run)
    run.discard()
    assert [p.name for p in (tmp_path / "mine").iterdir()] == ["journal-notes.jsonl"]
    RunFolder.create(tmp_path / "mine", CONFIG).close()


def test_a_fifo_in_place_of_the_journal_is_named_and_not_waited_for(tmp_path: Path) -> None:
    with RunFolder.resume(saved_run(tmp_path / "run")) as run:
        os.mkfifo(run.journal)
        with (
            pytest.raises(Refused, match=r"journal\.jsonl: it is no regular file"),
            writing(run.path),
        ):
            Journal(run.journal)


def test_a_killed_writers_drafts_go_when_the_run_is_resumed(tmp_path: Path) -> None:
    path = saved_run(tmp_path / "run")
    (path / ".summary.json.1.tmp").write_text("half")
    RunFolder.resume(path).close()
    assert not list(path.glob(".*.tmp"))


STABLE = {
    "algorithm", "env", "seed", "steps", "updates", "seconds", "steps_per_second",
    "mean_return_100", "lag_mean", "lag_max", "restarts", "rows_lost", "outcome", "times",
    "not_restored", "starts", "usage",
    "actors_by_update", "nodes", "lag_by_actor", "lag_histogram", "shares",
    "times_by_member", "progress", "wall_seconds", "first_step_seconds", "why",
}  # fmt: skip


def test_the_summary_is_json_with_the_stable_fields_on_one_level(
    tmp_path: Path, status: Callable[..., Status]
) -> None:
    summary = Summary(status(steps=100, waits={"learner": "rows"}), Usage(nodes=("w1",)), seed=7)
    with RunFolder.create(tmp_path, CONFIG) as folder:
        folder.write_summary(summary)
        found = json.loads(folder.summary.read_bytes())
    assert set(found) >= STABLE
    assert (found["steps"], found["nodes"], found["seed"]) == (100, ["w1"], 7)
    assert "waits" not in found


def test_names_are_numbered_upwards_from_the_highest(tmp_path: Path) -> None:
    for number in (1, 2, 10):
        (tmp_path / f"ppo-CartPole-v1-seed3-{number}").mkdir()
    (tmp_path / "ppo-CartPole-v1-seed3-old").mkdir()
    assert default_path(tmp_path, "ppo", "CartPole-v1", 3).name == "ppo-CartPole-v1-seed3-11"
    assert default_path(tmp_path, "ppo", "CartPole-v1", 4).name == "ppo-CartPole-v1-seed4-1"


@given(st.text(), st.text())
def test_any_name_gives_one_folder_below_the_root(algorithm: str, env: str) -> None:
    path = default_path(Path("runs"), algorithm, env, 0)
    assert path.parent == Path("runs")
    assert path.name.isascii()
    assert not path.name.startswith((".", "-"))


def _numbered(root: Path, barrier: object) -> None:
    barrier.wait(PATIENCE)  # type: ignore[attr-defined]
    folder = RunFolder.create_numbered(root, "ppo", "CartPole-v1", 1, {"pid": os.getpid()})
    assert written(folder.path) == {"pid": os.getpid()}


@pytest.mark.processes
def test_rivals_for_a_number_all_get_their_own(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(4)
    rivals = [context.Process(target=_numbered, args=(tmp_path, barrier)) for _ in range(4)]
    for rival in rivals:
        rival.start()
    for rival in rivals:
        rival.join(PATIENCE)
        assert rival.exitcode == 0
        rival.close()
    assert sorted(path.name[-2:] for path in tmp_path.iterdir()) == ["-1", "-2", "-3", "-4"]


@pytest.mark.parametrize("changed", [False, True])
def test_a_resumed_runs_config_is_sealed_only_if_it_was(changed: bool, tmp_path: Path) -> None:
    path = saved_run(tmp_path / "run")
    if changed:
        config = msgspec.json.decode((path / "config.json").read_bytes())
        (path / "config.json").write_bytes(msgspec.json.encode(config | {"folder": "/theirs"}))
    with RunFolder.resume(path) as folder:
        folder.write_config(folder.config | {"seed": 5})
    assert is_own(json.loads((path / "config.json").read_text())) != changed
