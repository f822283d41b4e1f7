"""A whole run whose journal is divided: nobody who goes on with it or reads it notices."""

from __future__ import annotations

import json
import shutil
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from deploy.cli.__main__ import main
from head.run import session
from triggers.journal import Journal, read
from triggers.journal_parts import parts

SMALL = ("--set", "steps=16", "--set", "minibatches=2", "--set", "checkpoint=all", "--inline")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A finished run."""
    monkeypatch.setattr(session, "Journal", partial(Journal, most=1000))
    folder = tmp_path / "run"
    words = ("run", "ppo", "--total-steps", "512", "--run-dir", str(folder), "--json")
    assert main([*words, *SMALL]) == 0
    return folder


def test_it_is_simulated_like_one_in_one_file(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, journal = tmp_path / "whole", run / "journal.jsonl"
    shutil.copytree(run, whole, ignore=shutil.ignore_patterns("journal*"))
    with_all = Journal(whole / "journal.jsonl")
    for line in read(journal):
        with_all.write(line)
    with_all.close()
    assert parts(journal)
    told = []
    for folder in (run, whole):
        capsys.readouterr()
        assert main(["simulate", "--journal", str(folder), "--json"]) == 0
        told.append(json.loads(capsys.readouterr().out))
        del told[-1]["simulated_in"]
    assert told[0] == told[1]


def test_it_goes_on_after_its_last_whole_line(run: Path) -> None:
    journal = run / "journal.jsonl"
    before, divided = [*read(journal)], len(parts(journal))
    with journal.open("ab") as file:
        file.write(b'{"t":1.0,"fir')
    assert main(["run", "--resume", str(run), "--total-steps", "1024", "--json", "--trust"]) == 0
    lines = [*read(journal)]
    assert lines[: len(before)] == before
    assert len(parts(journal)) > divided
    fired = [line["firing"] for line in lines if "firing" in line]
    # One that was withheld at the end is there once more, where it is carried out.
    assert all(after >= earlier for earlier, after in pairwise(fired))
    assert {line["done"] for line in lines if "done" in line} <= set(fired)
