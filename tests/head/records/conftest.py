from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from helpers import ROOT
from records_writer import Start

from head.records.run_folder import RunFolder
from head.records.status import Status


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a program of ``records_writer.py``; whatever still runs is killed at the end."""
    running: list[subprocess.Popen[str]] = []

    def run(*arguments: object) -> subprocess.Popen[str]:
        program = Path(__file__).with_name("records_writer.py")
        process = subprocess.Popen(
            [sys.executable, str(program), *map(str, arguments)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            cwd=ROOT, env={"PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        running.append(process)
        return process

    yield run
    for process in running:
        process.kill()
        process.communicate()


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[RunFolder]:
    with RunFolder.create(tmp_path / "run", {"algorithm": "ppo", "env": "CartPole-v1"}) as made:
        yield made


BASE = Status(
    algorithm="ppo", env="CartPole-v1", seconds=2.5, steps=1000, total_steps=5000, updates=3,
    version=3, steps_per_second=400.0, mean_return_100=21.5, episodes=12, lag_mean=0.5, lag_max=2,
    restarts=0, rows_lost=0,
)  # fmt: skip


@pytest.fixture
def status() -> Callable[..., Status]:
    """Builds a status; keywords replace fields."""

    def build(**changes: object) -> Status:
        return msgspec.structs.replace(BASE, **changes)

    return build
