"""Runs of this machine, told of without a head: where they are found, and what is said of them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest
from named import LEARNER

from artos.buffer.shm_folder import ShmFolder
from artos.errors import NoSuchRun, NotRunning, Refused
from artos.protocol.usage import Usage
from artos.runs.plan import Site
from artos.runtime.control import announced
from artos.specs.members import Members
from deploy.cli.__main__ import main
from deploy.local.local_runs import LocalRuns
from head.records import summary_file
from head.records.progress_log import ProgressLog
from head.records.run_folder import RunFolder
from head.records.status import Status, Summary

STATUS = Status(
    algorithm="ppo", env="CartPole-v1", seconds=2.5, steps=800, total_steps=1000, updates=3,
    version=3, steps_per_second=400.0, mean_return_100=21.5, episodes=12, lag_mean=0.5, lag_max=2,
    restarts=0, rows_lost=0,
    waits={"actor_critic": "rows", "actor 0": "version 4", "actor 1": "rows"},
)  # fmt: skip
SUMMARY = Summary(
    msgspec.structs.replace(STATUS, steps=1000, updates=4, seconds=3.0, mean_return_100=22.0),
    Usage(), seed=1,
)  # fmt: skip


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of runs in a user's folder, who is there and knows of no head."""
    for name in ("ARTOS_HEAD", "ARTOS_KEYS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "runs"


Start = Callable[..., RunFolder]


@pytest.fixture
def start(runs: Path) -> Iterator[Start]:
    """A run of that name: live, or as it was left (a summary, or only what a kill leaves)."""
    with ExitStack() as stack:

        def begin(name: str, *, live: bool = False, **summary: Any) -> RunFolder:
            asked = {"workload": "ppo", "settings": {}, "folder": ""}
            folder = RunFolder.create(runs / name, asked)
            log = ProgressLog(folder)
            log.write(STATUS)
            log.close()
            if live:
                stack.enter_context(folder)
                memory = ShmFolder.create(name)
                stack.callback(memory.remove)
                site = Site(str(memory.path), LEARNER, Members.of_run(2))
                stack.enter_context(announced(folder.path, site))
            else:
                folder.close()
            if summary:
                folder.write_summary(msgspec.structs.replace(SUMMARY, **summary))
            return folder

        yield begin


def said(run: str, runs: Path) -> tuple[Any, ...]:
    status = LocalRuns(runs).status(run)
    return tuple(getattr(status, name) for name in ("name", "state", "outcome", "why", "actors"))


def test_a_live_run(start: Start, runs: Path) -> None:
    start("a", live=True)
    assert said("a", runs) == ("a", "running", "", "", 2)
    status = LocalRuns(runs).status("a").plain
    assert status["facts"] == msgspec.to_builtins(STATUS)
    assert "summary" not in status


@pytest.mark.parametrize(
    ("outcome", "why", "state"),
    [("done", "", "done"), ("interrupted", "", "done"), ("failed", "NotFinite: loss", "failed")],
)
def test_a_run_that_is_over(outcome: str, why: str, state: str, start: Start, runs: Path) -> None:
    start("a", outcome=outcome, why=why)
    assert said("a", runs) == ("a", state, outcome, why, 0)
    assert LocalRuns(runs).status("a").ending["steps"] == 1000


def test_a_run_that_was_killed(start: Start, runs: Path) -> None:
    start("a")
    assert said("a", runs) == ("a", "failed", "failed", "its process was killed", 0)
    folder = start("b", outcome="done")  # of an earlier part: it was resumed, and killed then
    (folder.path / "live.json").write_text('{"board": "gone", "members": 3}')
    (folder.checkpoint / "manifest.json").touch()
    assert said("b", runs)[1:3] == ("failed", "failed")
    assert f"artos run --resume {folder.path}" in said("b", runs)[3]


def test_a_run_that_is_there_and_has_not_begun(start: Start, runs: Path) -> None:
    """Or not again: what it says of its actors is of an earlier part."""
    with RunFolder.create(runs / "a", {}):
        assert said("a", runs) == ("a", "starting", "", "", 0)
    folder = start("b", outcome="interrupted")
    (folder.checkpoint / "manifest.json").touch()
    with RunFolder.resume(folder.path):
        assert said("b", runs) == ("b", "starting", "", "", 0)


def test_runs_are_listed_the_oldest_first(start: Start, runs: Path) -> None:
    for name in ("b", "a"):
        start(name, outcome="done")
    (runs / "no run").mkdir()
    listed = LocalRuns(runs).list_runs()
    assert [run.name for run in listed] == ["b", "a"]
    assert not {"facts", "damage", "summary"} & listed[0].plain.keys()
    everything = LocalRuns(runs).cluster()
    assert [run.progress.steps for run in everything.runs if run.progress] == [800, 800]
    (node,) = everything.nodes
    assert node.alive
    assert node.slots > 0


def test_a_run_that_is_removed_meanwhile_is_not_listed(
    start: Start, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("b", "a"):
        start(name, outcome="done")
    read = summary_file.read

    def late(run: Path) -> Any:
        if run.name == "b":
            shutil.rmtree(run)
        return read(run)

    monkeypatch.setattr(summary_file, "read", late)
    assert [run.name for run in LocalRuns(runs).list_runs()] == ["a"]


def test_a_run_is_found_by_its_folder_or_its_name(start: Start, runs: Path) -> None:
    path = start("a", outcome="done").path
    for name in ("a", "runs/a", str(path), str(path) + "/"):
        assert said(name, runs)[0] == "a"
    assert LocalRuns(Path("elsewhere")).status("runs/a").name == "a"


@pytest.mark.parametrize(
    "what",
    [LocalRuns.status, LocalRuns.logs, LocalRuns.stop, lambda runs, run: runs.scale(run, 2)],
)
def test_there_is_no_such_run(
    what: Callable[[LocalRuns, str], Any], start: Start, runs: Path
) -> None:
    start("ppo-1", outcome="done")
    with pytest.raises(NoSuchRun, match=r"no run 'pp-1' .*did you mean ppo-1\?.*ARTOS_HEAD"):
        what(LocalRuns(runs), "pp-1")


def test_a_long_log_is_shown_from_a_line_on_and_printed_whole_if_asked(
    start: Start, runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [f"line {number} is öffentlich\n" for number in range(10_000)]
    whole = "".join(lines)
    (start("a", outcome="done").logs / "run.log").write_text(whole)
    assert main(["logs", "a"]) == 0
    end, told = capsys.readouterr()
    before = whole.removesuffix(end)
    assert 19_900 < len(end.encode()) <= 20_000
    assert end.startswith("line ")
    assert before.endswith("\n")
    assert told == f"artos: {len(before.encode()):,} bytes before this: --all prints them, too\n"
    for flag in ("--all", "-f"):
        assert main(["logs", "a", flag]) == 0
        assert capsys.readouterr() == (whole, "")
    assert main(["logs", "a", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said == {"text": whole, "next": len(whole.encode()), "state": "done", "ended": True}


def test_a_log_of_one_long_line_is_shown(
    start: Start, runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (start("a", outcome="done").logs / "run.log").write_text(29_999 * "x" + "\n")
    assert main(["logs", "a"]) == 0
    said = capsys.readouterr()
    assert said.out == 19_999 * "x" + "\n"
    assert said.err.startswith("artos: 10,000 bytes before this")


def test_logs_are_read_on_from_where_they_ended(start: Start, runs: Path) -> None:
    folder = start("a", outcome="done")
    here = LocalRuns(runs)
    assert here.logs("a") == {"text": "", "next": 0, "state": "done", "ended": True}
    (folder.logs / "run.log").write_text("one\ntwo\n")
    (folder.logs / "actor-0.log").write_text("three\n")
    assert here.logs("a", 4)["text"] == "two\n"
    assert here.logs("a", -4)["text"] == "two\n"
    assert here.logs("a", 0, "actor-0")["text"] == "three\n"
    with pytest.raises(Refused, match="no log 'actor-7'; there are: actor-0, run"):
        here.logs("a", 0, "actor-7")


def test_what_is_over_is_neither_stopped_nor_scaled(start: Start, runs: Path) -> None:
    start("a", outcome="done")
    assert LocalRuns(runs).stop("a").state == "done"
    with pytest.raises(NotRunning):
        LocalRuns(runs).scale("a", 2)


def test_a_run_whose_process_cannot_be_seen_is_not_stopped(start: Start, runs: Path) -> None:
    folder = start("a", live=True)
    (folder.path / "run.lock").write_text("1")
    with pytest.raises(Refused, match="is not visible from here"):
        LocalRuns(runs).stop("a")


# -- the commands ----------------------------------------------------------------------------------


def test_commands_without_a_head_tell_of_runs_here(
    start: Start, runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start("a", outcome="done")
    assert main(["list", "--json"]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert (run["name"], run["folder"]) == ("a", "runs/a")
    assert main(["status", "a"]) == 0
    assert "800/1,000 steps (80%)" in capsys.readouterr().out
    assert main(["top"]) == 0
    assert "800/1,000 steps (80%)" in capsys.readouterr().out


def test_an_empty_folder_has_no_runs_and_says_where_others_are(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in ("list", "status", "top"):
        assert main([command]) == 0
        assert "there are no runs in runs; for a cluster's runs: --head" in capsys.readouterr().out


def test_a_name_is_the_heads_where_one_is_given(
    start: Start, runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder of a run is what it is."""
    start("a", outcome="done")
    monkeypatch.setenv("ARTOS_HEAD", "tcp://127.0.0.1:1")
    assert main(["status", "a"]) == 2
    assert "--keys" in capsys.readouterr().err
    assert main(["status", "runs/a"]) == 0
    assert main(["status", "a", "--runs", "runs"]) == 0
    assert main(["list"]) == 2
    assert main(["list", "--runs", "runs"]) == 0
    assert main(["status", "runs/a", "--head", "tcp://127.0.0.1:1"]) == 2


def test_what_would_start_nothing_does_not_say_that_nothing_was_started(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in (["status", "x"], ["logs", "x"], ["stop", "x"], ["scale", "x", "2"]):
        assert main(command) == 2
        assert capsys.readouterr().err.startswith("artos: there is no run 'x' here")
    assert main(["keys", str(runs), "--user", "a/b", "--node", "c/d"]) == 2
    assert capsys.readouterr().err.startswith("artos: refused:\n  - no key can be named 'a/b'")
    assert main(["run", "nothing"]) == 2
    assert "artos: refused, nothing was started:\n  - unknown" in capsys.readouterr().err
