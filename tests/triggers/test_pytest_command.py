"""Folders of tests are called like packages; ``pytest`` must not take them for these."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from helpers import PATIENCE, ROOT


def test_the_pytest_command_finds_the_packages_too() -> None:
    pytest_command = str(Path(sys.executable).with_name("pytest"))
    arguments = ["--collect-only", "-q", "-p", "no:cacheprovider", "tests/triggers/test_explain.py"]
    plain = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    found = subprocess.run(
        [sys.executable, pytest_command, *arguments],
        cwd=ROOT, env=plain, check=False, capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert found.returncode == 0, found.stdout + found.stderr
