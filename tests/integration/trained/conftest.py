"""A user's folder with runs that are over, made once for the tests of a file."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import chdir
from pathlib import Path

import pytest
from helpers import ROOT

from deploy.cli.__main__ import main

TOYS = "toys_to_load"
Train = Callable[..., str]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder, which is the current one; what was imported from there is forgotten."""
    folder, path, known = tmp_path_factory.mktemp("home"), [*sys.path], {*sys.modules}
    shutil.copy(Path(__file__).with_name(f"{TOYS}.py"), folder)
    shutil.copy(ROOT / "docs" / "examples" / "my_dqn.py", folder)
    with chdir(folder):
        yield folder
    sys.path[:] = path
    for name in {*sys.modules} - known:
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(str(folder)):
            del sys.modules[name]


@pytest.fixture(scope="module")
def train(home: Path) -> Train:
    """Trains once for a name, and returns the run's folder."""

    def trained(name: str, workload: str, *arguments: str, steps: int = 256) -> str:
        run = home / "runs" / name
        if not run.exists():
            words = ["run", workload, "--total-steps", str(steps), "--run-dir", str(run)]
            assert main([*words, "--inline", "--json", *arguments]) == 0
        return str(run)

    return trained


@pytest.fixture(scope="module")
def toy(train: Train) -> Callable[[str], str]:
    """A run of PPO on one of the toys."""
    small = ("--set", "envs=4", "--set", "steps=16", "--set", "minibatches=1")
    return lambda name: train(name, "ppo", "--env", f"{TOYS}:{name}", *small)
