"""A user's folder: the examples, beside files of the user's own that are called like ours."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
NOT_OURS = 'raise RuntimeError("a file of the user\'s own was imported in place of ours")\n'


class UserFolder:
    """Runs ``artos`` in a folder of its own, with shared memory of its own."""

    def __init__(self, path: Path, shm: Path) -> None:
        self.path, self.shm = path, shm
        self.environment = {**os.environ, "PYTHONPATH": str(ROOT), "ARTOS_SHM": str(shm)}

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-P", "-m", "deploy.cli", *arguments]

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            self.command(*arguments), cwd=self.path, env=self.environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def artos(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return self.python(*self.command(*arguments)[1:])

    def python(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, *arguments], cwd=self.path, env=self.environment, text=True,
            capture_output=True, timeout=100, check=False,
        )  # fmt: skip

    def summary(self) -> dict[str, Any]:
        """The only run's ``summary.json``."""
        (found,) = self.path.glob("runs/*/summary.json")
        read: dict[str, Any] = json.loads(found.read_text())
        return read


@pytest.fixture
def user(tmp_path: Path) -> Iterator[UserFolder]:
    path, shm = tmp_path / "user", tmp_path / "shm"
    shutil.copytree(ROOT / "docs" / "examples", path, ignore=shutil.ignore_patterns("__pycache__"))
    shm.mkdir()
    for name in ("workers", "head", "deploy", "triggers_test"):
        (path / f"{name}.py").write_text(NOT_OURS)
    yield UserFolder(path, shm)
    assert list(shm.iterdir()) == [], "shared memory was left behind"
