"""Whatever happened to a run's files: words that name the file, never a traceback or a wait."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import artos
from artos.errors import ArtosError
from deploy.cli.__main__ import main
from deploy.local.local_runs import LocalRuns
from head.records import evaluations
from head.records.episodes import Episodes
from head.records.progress_log import last_status, read_history
from head.records.run_folder import RunFolder
from head.run.preparation import stored_request
from head.simulation.recorded import recorded

FILES = (
    "config.json", "summary.json", "progress.csv", "episodes.csv", "evaluations.csv",
    "journal.jsonl", "checkpoint/manifest.json", "run.lock", "live.json",
)  # fmt: skip
Damage = Callable[[Path, random.Random], None]


def empty(file: Path, rnd: random.Random) -> None:
    file.write_bytes(b"")


def missing(file: Path, rnd: random.Random) -> None:
    file.unlink()


def cut(file: Path, rnd: random.Random) -> None:
    text = file.read_bytes()
    file.write_bytes(text[: rnd.randrange(len(text) + 1)])


def garbage(file: Path, rnd: random.Random) -> None:
    file.write_bytes(rnd.randbytes(200) + b"\n")


def flipped(file: Path, rnd: random.Random) -> None:
    text = bytearray(file.read_bytes())
    for _ in range(3):
        text[rnd.randrange(len(text))] = rnd.choice(b'{}[]",:0-\xff\n')
    file.write_bytes(text)


def other_types(file: Path, rnd: random.Random) -> None:
    """Another kind of value where a number, a text or a list was."""
    text = file.read_text()
    for before, after in rnd.sample(
        [("1", "null"), ("0", '"x"'), ("[", "{"), ("true", "[]"), ("2", "1e400"), ("3", "-9" * 30)],
        2,
    ):
        text = text.replace(before, after)
    file.write_text(text)


def no_object(file: Path, rnd: random.Random) -> None:
    file.write_bytes(rnd.choice([b"[]", b"null", b"7", b'"text"', b"[" * 5000]))


def folder(file: Path, rnd: random.Random) -> None:
    file.unlink()
    file.mkdir()


def fifo(file: Path, rnd: random.Random) -> None:
    file.unlink()
    os.mkfifo(file)


def dangling(file: Path, rnd: random.Random) -> None:
    file.unlink()
    file.symlink_to("/nowhere/at/all")


DAMAGES = [
    empty, missing, cut, garbage, flipped, other_types, no_object, folder, fifo, dangling,
]  # fmt: skip


def resumed(run: Path) -> None:
    with RunFolder.resume(run) as folder:
        stored_request(folder, {}, quiet=True)


READERS: list[Callable[[Path], object]] = [
    lambda run: artos.load(run, trust=True),
    lambda run: recorded([run]),
    lambda run: Episodes.read(run / "episodes.csv"),
    lambda run: evaluations.read(run / "evaluations.csv"),
    lambda run: read_history(run / "progress.csv"),
    lambda run: last_status(run / "progress.csv"),
    resumed,
    lambda run: LocalRuns(run.parent).status(run.name),
    lambda run: LocalRuns(run.parent).list_runs(),
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run."""
    path = tmp_path_factory.mktemp("runs") / "whole"
    settings = ("--set", "steps=16", "--set", "minibatches=2", "--set", "evaluate_every=1")
    words = ("run", "ppo", "--inline", "--total-steps", "384", "--run-dir", str(path), "--json")
    assert main([*words, *settings, "--set", "evaluation_episodes=1"]) == 0
    return path


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda each: each.__name__)
@pytest.mark.parametrize("name", FILES)
def test_words_name_what_is_wrong(name: str, damage: Damage, whole: Path, tmp_path: Path) -> None:
    for seed in range(3):
        run = tmp_path / f"r{seed}"
        shutil.copytree(whole, run)
        file = run / name
        if not file.exists():
            file.write_text("{}")
        damage(file, random.Random(f"{name}{damage.__name__}{seed}"))
        for read in READERS:
            assert run.name in said(read, run)


def said(read: Callable[[Path], object], run: Path) -> str:
    """What a reader complains of; the run's name if it does not. Any other error is raised."""
    try:
        read(run)
    except ArtosError as error:
        return str(error)
    return run.name
