"""A user who calls ``artos`` from a folder of files."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from helpers import PATIENCE, ROOT


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
            capture_output=True, timeout=2 * PATIENCE, check=False,
        )  # fmt: skip

    def summary(self) -> dict[str, Any]:
        """The only run's ``summary.json``."""
        (found,) = self.path.glob("runs/*/summary.json")
        read: dict[str, Any] = json.loads(found.read_text())
        return read
