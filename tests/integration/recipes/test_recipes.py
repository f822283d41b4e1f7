"""The recipes of CONTRIBUTING.md: each is followed in a copy of the tree, which then runs."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest
from helpers import PATIENCE, ROOT

import artos

HERE = Path(__file__).parent
FLOORS = ("artos", "triggers", "head", "workers", "deploy")
PAGE = (ROOT / "CONTRIBUTING.md").read_text()

pytestmark = [pytest.mark.long, pytest.mark.processes]


class Change(NamedTuple):
    """What a recipe changes in a file of the tree; ``old`` is there once."""

    file: str
    old: str
    new: str


@dataclass(frozen=True)
class Recipe:
    """``code``, a file in this folder, becomes ``file``; ``changes`` are made elsewhere."""

    code: str
    file: str
    changes: tuple[Change, ...]

    def files(self) -> set[str]:
        """The product files that it touches."""
        return {self.file, *(change.file for change in self.changes)}


def below(file: str, line: str, new: str) -> Change:
    """A new line below one that begins with ``line``."""
    (old,) = (each for each in (ROOT / file).read_text().splitlines() if each.startswith(line))
    return Change(file, old, f"{old}\n{new}")


SURFACE, WIRING = "triggers/__init__.py", "head/run/wiring.py"
TRIGGER = Recipe(
    "every_n_rows.py",
    "triggers/every_n_rows.py",
    (
        below(
            SURFACE,
            "    from triggers.events",
            "    from triggers.every_n_rows import EveryNRows",
        ),
        below(SURFACE, '    "DataKeyTrigger",', '    "EveryNRows",'),
        below(SURFACE, '    "DataKeyTrigger":', '    "EveryNRows": "triggers.every_n_rows",'),
    ),
)
CONCERN = Recipe(
    "stop_at_return.py",
    "head/run/concerns/stop_at_return.py",
    (
        below(
            WIRING,
            "from head.run.concerns.standstill",
            "from head.run.concerns.stop_at_return import StopAtReturn",
        ),
        below(WIRING, "        Records(run),", "        StopAtReturn(run, 60.0),"),
    ),
)
ALGORITHM = Recipe("reinforce.py", "triggers/algorithms/reinforce.py", ())
LAUNCHER = Recipe("desk.py", "deploy/launchers/engines/desk.py", ())


class Tree:
    """A copy of the product, and a user who calls ``artos`` of it from a folder of files."""

    def __init__(self, folder: Path, shm: Path) -> None:
        self.root, self.user, self.shm = folder / "tree", folder / "user", shm
        self.clusters = self.user / ("c" * 80)  # too long for a socket
        for floor in FLOORS:
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / floor, self.root / floor, ignore=ignored)
        self.user.mkdir()
        shutil.copy(ROOT / "docs" / "examples" / "my_algo.py", self.user)

    def follow(self, recipe: Recipe) -> None:
        shutil.copy(HERE / recipe.code, self.root / recipe.file)
        for file, old, new in recipe.changes:
            text = (self.root / file).read_text()
            assert text.count(old) == 1
            (self.root / file).write_text(text.replace(old, new))

    def artos(self, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-P", "-m", "deploy.cli", *arguments], cwd=self.user, text=True,
            env={**os.environ, "PYTHONPATH": str(self.root), "ARTOS_SHM": str(self.shm),
                 "ARTOS_CLUSTERS": str(self.clusters), **more},
            capture_output=True, timeout=2 * PATIENCE, check=False,
        )  # fmt: skip


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Tree]:
    with TemporaryDirectory(prefix="artos-") as shm:  # short: sockets are in it
        yield Tree(tmp_path, Path(shm))


@pytest.mark.parametrize("recipe", [TRIGGER, CONCERN, LAUNCHER], ids=lambda recipe: recipe.code)
def test_the_page_shows_what_is_followed(recipe: Recipe) -> None:
    shown = re.findall(r"^ *```python\n(.*?)^ *```$", PAGE, re.M | re.S)
    assert (HERE / recipe.code).read_text() in shown
    assert all(new.removeprefix(old).strip() in PAGE for _, old, new in recipe.changes)
    assert all(f"`{file}`" in PAGE for file in recipe.files() - {recipe.file})
    assert len(recipe.files()) <= 2


def test_a_trigger_has_words_and_faults(tree: Tree) -> None:
    tree.follow(TRIGGER)
    shutil.copy(HERE / "synced_by_rows.py", tree.user)
    explained = tree.artos("explain", "synced_by_rows.py:counted")
    assert explained.returncode == 0, explained.stderr
    assert re.search(
        r"^actors.sync +EveryNRows +every 512 rows, of whichever actors$", explained.stdout, re.M
    )
    refused = tree.artos("explain", "synced_by_rows.py:counted", "--set", "n=0")
    assert refused.returncode == 2
    assert "triggers['actors.sync']: n must be a whole number of at least 1, not 0" in (
        refused.stderr
    )
    ran = tree.artos("run", "synced_by_rows.py:counted", "--json")
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["steps"] == 4_096
    journal = next(tree.user.glob("runs/*/journal.jsonl")).read_text().splitlines()
    syncs = [line for line in map(json.loads, journal) if line.get("trigger") == "actors.sync"]
    assert 1 <= len(syncs) <= 2  # 1,024 rows of four environments: one each 512, but before weights


def test_a_concern_ends_the_run(tree: Tree) -> None:
    tree.follow(CONCERN)
    ran = tree.artos("run", "my_algo.py:workload", "--json", "--total-steps", "1000000")
    assert ran.returncode == 0, ran.stderr
    summary = json.loads(ran.stdout)
    assert summary["ended_by"] == "return"
    assert summary["steps"] < 1_000_000


def test_an_algorithm_learns(tree: Tree) -> None:
    assert len((HERE / ALGORITHM.code).read_text().splitlines()) <= 120
    tree.follow(ALGORITHM)
    explained = tree.artos("explain", "reinforce")
    assert explained.returncode == 0, explained.stderr
    assert re.search(r"^lr=0.01 +float +step size$", explained.stdout, re.M)
    refused = tree.artos("run", "reinforce", "--set", "gamma=2")
    assert refused.returncode == 2
    assert "gamma" in refused.stderr
    ran = tree.artos("run", "reinforce", "--json", "--inline", "--total-steps", "100000")
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["mean_return_100"] > 60  # about 22 at first


def test_an_environment_is_adapted(tree: Tree) -> None:
    shutil.copy(HERE / "their_game.py", tree.user)
    assert (HERE / "their_game.py").read_text() in PAGE
    checked = tree.artos("check", "their_game:make", "--json")
    assert checked.returncode == 0, checked.stderr
    assert "decided by its seed" in tree.artos("check", "their_game:make").stdout


def test_a_launcher_carries_a_cluster(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    tree.follow(LAUNCHER)
    up = (
        "up", "--on", "desk", "--nodes", "1..2", "--slots", "1", "--name", "d", "--wait", "200",
        "--json",
    )  # fmt: skip
    too_long = tree.user / "memory-of-a-long-name" / ("n" * 70)
    too_long.mkdir(parents=True)
    try:
        ended = tree.artos(*up, ARTOS_SHM=str(too_long))
        assert ended.returncode == 1
        assert "the head of d has ended" in ended.stderr
        assert "shorten the latter by" in ended.stderr
        started = tree.artos(*up)
        assert started.returncode == 0, started.stderr
        facts = json.loads(started.stdout)
        assert [node["name"] for node in facts["nodes"]] == ["d-0"], started.stderr
        assert json.loads(tree.artos(*up).stdout)["joined"]
        towards = ("--head", facts["address"], "--keys", facts["keys"])
        ran = tree.artos(
            "submit", "my_algo.py:workload", "--actors", "2", "--total-steps", "500000", "--wait",
            "--json", *towards,
        )  # fmt: skip
        assert ran.returncode == 0, ran.stderr
        assert {*json.loads(ran.stdout)["nodes"]} == {"d-0", "d-1"}
        (run,) = json.loads(tree.artos("list", "--json", *towards).stdout)["runs"]
        got = tree.artos("get", run["name"], "mine", "--json", *towards)
        assert got.returncode == 0, got.stderr
        played = tree.artos("eval", "mine", "--episodes", "1", "--trust")
        assert played.returncode == 0, played.stderr
        monkeypatch.setenv("ARTOS_KEYS", facts["keys"])
        monkeypatch.setenv("XDG_CACHE_HOME", str(tree.user / "cache"))
        by_name = f"{run['name']}@{facts['address']}"
        assert artos.load(by_name, code=tree.user, trust=True).state_dict()
    finally:
        ended = tree.artos("down", "d")
    assert ended.returncode == 0, ended.stderr
    left = tree.clusters / "d"
    assert {path.name for path in left.iterdir()} == {"runs", "logs", "lock"}
    assert [*tree.shm.iterdir()] == []
