"""What triggers made of a run is there when it goes on, and is not made again."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers import SUPPORT
from real_runs import Outcome, journal

from artos.specs.configuration import Configuration
from deploy.replay.opening import replayed
from head.records.run_folder import RunFolder

Command = Callable[..., Outcome]
INLINE = ("--inline",)


@pytest.fixture(autouse=True)
def code(home: Path) -> None:
    shutil.copy(SUPPORT / "climbing.py", home)
    shutil.copy(Path(__file__).with_name("rising.py"), home)


def levels(run: Path) -> list[float]:
    """Those that were set; each part of a run begins with what it goes on with."""
    return [line["set"]["env.level"] for line in journal(run) if "set" in line]


def two_parts(artos: Command, run: Path, *how: object, more: tuple[object, ...] = ()) -> Outcome:
    """320 steps, and 320 more in a resumed run."""
    begun = artos("run", "rising.py:workload", "--json", "--run-dir", run, *how)
    assert begun.status == 0, begun.err
    inline = INLINE if "--inline" in how else ()
    again = artos("run", "--resume", run, "--json", "--total-steps", 640, *inline, *more)
    assert again.status == 0, again.err
    return again


@pytest.mark.parametrize("saved", ["model", "all"])
@pytest.mark.parametrize("when", ["value", "version", "update", "own", "once"])
def test_no_level_is_left_because_a_run_goes_on(
    when: str, saved: str, artos: Command, home: Path
) -> None:
    how = ("--set", f"when={when}", "--set", f"checkpoint={saved}")
    two_parts(artos, home / "run", *INLINE, *how)
    assert levels(home / "run") == [1.0, 1.0]


@pytest.mark.long
@pytest.mark.processes
@pytest.mark.parametrize("saved", ["model", "all"])
@pytest.mark.parametrize("when", ["value", "once"])
def test_nor_where_its_members_are_processes(
    when: str, saved: str, artos: Command, home: Path
) -> None:
    two_parts(artos, home / "run", "--set", f"when={when}", "--set", f"checkpoint={saved}")
    assert levels(home / "run") == [1.0, 1.0]


@pytest.mark.parametrize("by_table", [True, False])
def test_a_level_that_was_set_after_the_checkpoint(
    by_table: bool, artos: Command, home: Path
) -> None:
    """What a run that is killed has set since then it sets again; by hand nobody would."""
    run, how = home / "run", (*INLINE, "--set", "when=once")
    begun = artos("run", "rising.py:workload", "--json", "--run-dir", run, *how)
    assert begun.status == 0, begun.err
    with RunFolder.resume(run) as folder:
        assert folder.configuration == Configuration(
            1, {"env.level": 1.0}, {"env.level": (1, None)}
        )
        folder.keep(folder.configuration.changed({"env.level": 2.0}, by_table=by_table))
    again = artos("run", "--resume", run, "--json", "--total-steps", 640, *INLINE)
    assert again.status == 0, again.err
    assert levels(run) == [1.0, 1.0 if by_table else 2.0]


def killed_before_the_line(
    artos: Command, run: Path, how: tuple[str, ...], *, by_table: bool
) -> None:
    """What was set is in config.json alone; the run goes on, and no number means two settings."""
    begin = ("run", "rising.py:workload", "--json", "--run-dir", run, "--set", "when=rows")
    begun = artos(*begin, *how)
    assert begun.status == 0, begun.err
    with RunFolder.resume(run) as folder:
        assert folder.configuration == Configuration(), "the 500th row is yet to come"
        folder.keep(folder.configuration.changed({"env.level": 1.0}, by_table=by_table))
    again = artos("run", "--resume", run, "--json", "--total-steps", 640, *how)
    assert again.status == 0, again.err
    lines = [(line["configuration"], line["set"]) for line in journal(run) if "set" in line]
    goes_on = (2, {}) if by_table else (1, {"env.level": 1.0})
    assert lines == [goes_on, (goes_on[0] + 1, {"env.level": 1.0 if by_table else 2.0})]


@pytest.mark.parametrize("by_table", [True, False])
def test_a_level_that_the_journal_does_not_have(by_table: bool, artos: Command, home: Path) -> None:
    killed_before_the_line(artos, home / "run", INLINE, by_table=by_table)


@pytest.mark.long
@pytest.mark.processes
@pytest.mark.parametrize("by_table", [True, False])
def test_such_a_run_is_replayed(by_table: bool, artos: Command, home: Path) -> None:
    killed_before_the_line(artos, home / "run", (), by_table=by_table)
    found = replayed(home / "run", trust=True)
    assert (found.equal, found.first_difference, found.ended) == (True, None, "")


@pytest.mark.parametrize("saved", ["model", "all"])
def test_rows_are_counted_on(saved: str, artos: Command, home: Path) -> None:
    """The 500th is one of the second part."""
    two_parts(artos, home / "run", *INLINE, "--set", "when=rows", "--set", f"checkpoint={saved}")
    assert levels(home / "run") == [1.0]


def test_a_trigger_that_was_changed_begins_anew_and_that_is_said(
    artos: Command, home: Path
) -> None:
    again = two_parts(
        artos, home / "run", *INLINE, "--set", "when=once", more=("--set", "when=value")
    )
    assert "what the trigger of set.env.level remembers: it was changed" in again.err
    assert levels(home / "run") == [1.0, 1.0]


def test_a_method_that_is_called_evaluate_is_no_evaluation(artos: Command, home: Path) -> None:
    run = home / "run"
    outcome = artos("run", "rising.py:workload", "--json", "--run-dir", run, *INLINE)
    assert outcome.status == 0, outcome.err
    fired = [x["firing"] for x in journal(run) if x.get("trigger") == "learner.evaluate"]
    assert [x["done"] for x in journal(run) if x.get("done") in fired] == fired
    assert len(fired) == outcome.summary["progress"]["metrics/evaluated"] == 3, (
        "versions 0, 4 and 8"
    )
    assert outcome.summary["evaluation"] == []
