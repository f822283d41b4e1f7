"""Whatever happened to a run's files: words that name the run, never a traceback or a wait."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from unittest import mock

import pytest
from damage import DAMAGES, VALUES, Damage, places, with_field, within

import artos
from artos.errors import ArtosError
from artos.runs.exit_status import ExitStatus
from artos.runtime.preload import Preloaded
from deploy.cli.__main__ import main
from deploy.dashboard.answers import Answers
from deploy.dashboard.app import encoded
from deploy.dashboard.sources import Folders
from deploy.figures.drawing import Format, drawn
from deploy.figures.questions import Answer
from head.records import evaluations
from head.records.episodes import Episodes
from head.records.progress_log import last_status, read_history
from head.run.request import reference_of
from triggers.registration import prepare

JSON = ("config.json", "summary.json", "checkpoint/manifest.json", "live.json", "journal.jsonl")
FILES = (
    *JSON, "progress.csv", "episodes.csv", "evaluations.csv", "run.lock", "logs/run.log",
    "checkpoint/arrays", "checkpoint/rows", "checkpoint/states",
)  # fmt: skip
DEADLINE = 240.0
"""Seconds for a reader; it takes a fraction of one, but a replay on a busy machine."""
SAMPLE, LONG_SAMPLE = 24, 100
FEW = {
    file: [DAMAGES[each * 4 % len(DAMAGES)] for each in range(number, number + 3)]
    for number, file in enumerate(FILES)
}
"""Each file in a few ways, each way in a few files."""


def command(*words: str) -> Callable[[Path], object]:
    """A command about a run; its exit status is one that the house has."""

    def read(run: Path) -> str:
        named = {"RUN": str(run), "RUNS": str(run.parent), "OUT": str(run.with_name("out"))}
        status = main([named.get(word, word) for word in words])
        assert status in (ExitStatus.DONE, ExitStatus.REFUSED, ExitStatus.FAILED)
        return run.name

    return read


def ask_dashboard(run: Path) -> str:
    """All that its page asks; it shows what is refused as words."""
    answers = Answers(Folders(run.parent))
    for ask in answers.of_all().values():
        with suppress(ArtosError, OSError):
            encoded(ask({}))
    for ask_of in answers.of_run().values():
        for query in ({"actor": "0", "row": "20"}, {"version": "2"}):
            with suppress(ArtosError, OSError):
                encoded(ask_of(run.name, query))
    with suppress(ArtosError, OSError):
        answers.metrics("")
    return run.name


def track(run: Path) -> object:
    """Send it to a tracker that is a folder beside it."""
    there = {"TENSORBOARD_LOGGING_DIR": str(run.with_name("sent"))}
    with mock.patch.dict(os.environ, there):
        return command("track", "RUN", "--to", "tensorboard")(run)


def plot(run: Path) -> object:
    """Each figure in the format in which the report does not draw it."""

    def files(answer: Answer, *kinds: Format) -> dict[Format, bytes]:
        others = tuple(kind for kind in kinds if kind != answer.best)
        return dict.fromkeys(kinds, b"") | drawn(answer.draw, others, answer.size)

    with mock.patch.object(Answer, "files", files):
        return command("plot", "RUN", "-o", "OUT")(run)


Readers = dict[str, Callable[[Path], object]]
READERS: Readers = {
    "load": lambda run: artos.load(run, trust=True),
    "episodes": lambda run: Episodes.read(run / "episodes.csv"),
    "evaluations": lambda run: evaluations.read(run / "evaluations.csv"),
    "history": lambda run: read_history(run / "progress.csv"),
    "last status": lambda run: last_status(run / "progress.csv"),
    "simulate": command("simulate", "--journal", "RUN"),
    "status": command("status", "RUN", "--json"),
    "all": command("status", "--runs", "RUNS"),
    "list": command("list", "--runs", "RUNS"),
    "usage": command("usage", "RUN"),
    "usage of all": command("usage", "--runs", "RUNS"),
    "logs": command("logs", "RUN"),
    "trace": command("trace", "RUN", "-o", os.devnull),
    "why": command("why", "RUN"),
    "metrics": command("metrics", "RUN"),
    "dashboard": ask_dashboard,
    "stop": command("stop", "RUN"),
    "scale": command("scale", "RUN", "3"),
    "eval": command("eval", "RUN", "--trust", "--episodes", "1"),
    "clean": command("clean", "RUN"),
    # The last one, as it changes the run.
    "resume": command("run", "--resume", "RUN", "--trust", "--json", "--total-steps", "384"),
}
SLOW: Readers = {
    "replay": command("replay", "RUN", "--trust", "--verify"),
    "plot": plot,
    "report": command("report", "RUN", "-o", os.devnull),
    "track": track,
}
"""Those that take seconds come first where there is time for them."""
EVERY = SLOW | READERS
KINDS = (EVERY, READERS)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run."""
    path = tmp_path_factory.mktemp("runs") / "whole"
    settings = {
        "steps": 16, "minibatches": 2, "evaluate_every": 1, "evaluation_episodes": 1,
        "checkpoint": "all",
    }  # fmt: skip
    words = ("run", "ppo", "--inline", "--total-steps", "384", "--run-dir", str(path), "--json")
    flags = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    assert main([*words, *flags]) == 0
    return path


@pytest.fixture(scope="module")
def _imported() -> Iterator[None]:
    """What prepares a replay is forked from where its code is imported, which takes a second."""
    with Preloaded(reference_of("ppo", {}, Path())) as preloaded:
        there = partial(prepare, preloaded=preloaded)
        with mock.patch("deploy.replay.opening.prepare", there):
            yield


def check(run: Path, readers: Readers = READERS) -> None:
    for name, read in readers.items():
        with within(DEADLINE, name):
            assert any(word in said(read, run) for word in (run.name, "setting ")), name


def said(read: Callable[[Path], object], run: Path) -> str:
    """What a reader complains of; the run's name if it does not. Any other error is raised."""
    try:
        read(run)
    except ArtosError as error:
        return str(error)
    return run.name


def named(run: Path, name: str) -> Path:
    """The file of that name, or whose name begins so; made if it is not there."""
    folder, stem = (run / name).parent, (run / name).name
    file = next(iter(folder.glob(f"{stem}-*")), run / name)
    if not file.exists():
        file.write_text("{}")
    return file


def check_damaged(
    whole: Path, name: str, damage: Damage, run: Path, readers: Readers = READERS
) -> None:
    shutil.copytree(whole, run)
    damage(named(run, name), random.Random(f"{name}{damage.__name__}"))
    check(run, readers)


@pytest.mark.parametrize("name", FEW)
def test_words_name_what_is_wrong(name: str, whole: Path, tmp_path: Path) -> None:
    for damage in FEW[name]:
        check_damaged(whole, name, damage, tmp_path / f"r0{damage.__name__}")


@pytest.mark.long
@pytest.mark.exhaustive
@pytest.mark.usefixtures("_imported")
@pytest.mark.parametrize(
    ("name", "damage", "readers"),
    [
        pytest.param(name, damage, KINDS[(file + way) % 2], id=f"{name}-{damage.__name__}")
        for file, name in enumerate(FILES)
        for way, damage in enumerate(DAMAGES) if damage not in FEW[name]
    ],
)  # fmt: skip
def test_every_file_in_every_other_way(
    name: str, damage: Damage, readers: Readers, whole: Path, tmp_path: Path
) -> None:
    """Those that take seconds read every second one."""
    check_damaged(whole, name, damage, tmp_path / "r0", readers)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run that can be replayed, as its members were processes."""
    path = tmp_path_factory.mktemp("runs") / "recorded"
    words = ("run", "ppo", "--total-steps", "384", "--run-dir", str(path), "--json")
    assert main([*words, "--set", "steps=16", "--set", "minibatches=2"]) == 0
    return path


@pytest.mark.long
@pytest.mark.usefixtures("_imported")
@pytest.mark.parametrize("name", ["replay/learner-0.tape", "journal.jsonl"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_replay_of_a_damaged_record(
    name: str, damage: Damage, recorded: Path, tmp_path: Path
) -> None:
    replay = {"replay": SLOW["replay"]}
    check(recorded, replay)
    check_damaged(recorded, name, damage, tmp_path / "r0", replay)


def damaged_fields(whole: Path, name: str) -> Iterator[tuple[str, str]]:
    """Every field of a file in every wrong way: what was done, and the file's text."""
    text = (whole / name).read_text()
    lines = text.splitlines() if name.endswith("l") else [text]
    for number, line in enumerate(lines):
        for at in places(json.loads(line)):
            for value in VALUES:
                changed = [*lines]
                changed[number] = with_field(line, at, value)
                yield f"{name}: {number}: {at} = {value!r}"[:200], "\n".join(changed) + "\n"


def check_fields(
    whole: Path, name: str, tmp_path: Path, chosen: Callable[[], bool],
    readers: Readers = READERS,
) -> None:  # fmt: skip
    for what, text in damaged_fields(whole, name):
        if chosen():
            run = tmp_path / "r0"
            shutil.rmtree(run, ignore_errors=True)
            shutil.copytree(whole, run)
            (run / name).write_text(text)
            try:
                check(run, readers)
            except BaseException as error:
                error.add_note(what)
                raise


FIELDS = ("config.json", "summary.json", "checkpoint/manifest.json", "journal.jsonl")


@pytest.mark.parametrize(
    "name", [*FIELDS[:2], *(pytest.param(name, marks=pytest.mark.long) for name in FIELDS[2:])]
)
def test_some_fields(name: str, whole: Path, tmp_path: Path) -> None:
    rnd = random.Random(name)
    share = SAMPLE / len(FIELDS) / sum(1 for _ in damaged_fields(whole, name))
    check_fields(whole, name, tmp_path, lambda: rnd.random() < share)


@pytest.mark.long
@pytest.mark.usefixtures("_imported")
@pytest.mark.parametrize(
    "name",
    [*FIELDS[:1], *(pytest.param(name, marks=pytest.mark.exhaustive) for name in FIELDS[1:])],
)
def test_some_fields_for_those_that_take_longer(name: str, whole: Path, tmp_path: Path) -> None:
    rnd = random.Random(f"slow {name}")
    share = SAMPLE / len(FIELDS) / sum(1 for _ in damaged_fields(whole, name))
    check_fields(whole, name, tmp_path, lambda: rnd.random() < share, SLOW)


@pytest.mark.long
@pytest.mark.exhaustive
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", FIELDS)
def test_many_fields(name: str, whole: Path, tmp_path: Path) -> None:
    rnd = random.Random(f"many {name}")
    share = LONG_SAMPLE / len(FIELDS) / sum(1 for _ in damaged_fields(whole, name))
    check_fields(whole, name, tmp_path, lambda: rnd.random() < share)


KNOWN = [
    ("config.json", ("settings",), None),
    ("config.json", ("env_spec", "actions", "sizes"), []),
    ("config.json", ("env_spec", "actions", "sizes"), [2**30]),
    ("config.json", ("env_spec", "actions", "dtype"), "x"),
    ("config.json", ("plan", "total_steps"), 10**15),
    ("config.json", ("plan", "triggers", "learner.update", "fields"), -1),
    ("summary.json", ("usage", "waits"), 0),
    ("summary.json", ("actors_by_update", 0, 1), 10**30),
    ("checkpoint/manifest.json", ("seed",), 10**30),
    ("checkpoint/manifest.json", ("file",), "a\0b"),
]  # fmt: skip
"""Each of these was a traceback or a hang."""


@pytest.mark.parametrize(("name", "at", "value"), KNOWN)
def test_what_was_wrong_before(
    name: str, at: tuple[object, ...], value: object, whole: Path, tmp_path: Path
) -> None:
    run = tmp_path / "r0"
    shutil.copytree(whole, run)
    (run / name).write_text(with_field((run / name).read_text(), at, value))
    check(run)
