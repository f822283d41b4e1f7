"""A run on an unmodified OpenEnv server, in a process and an environment of its own."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers import PATIENCE
from real_runs import Artos, shared_memory
from worker_hosts import until

from evaluation.lab.packages import python_with

pytestmark = [pytest.mark.processes, pytest.mark.long]

HERE = Path(__file__).parent


class Server:
    """A server of the environment ``signals_server``, which writes a log."""

    def __init__(self, python: Path, folder: Path) -> None:
        self._log = folder / "server.log"
        command = ("-m", "uvicorn", "signals_server:app", "--port", "0", "--app-dir", HERE)
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                [python, *command], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder,
                env={"PYTHONDONTWRITEBYTECODE": "1"},
            )  # fmt: skip

    @property
    def address(self) -> str:
        """Where it listens; waits until it does."""
        until(
            f"a server that listens:\n{self._log}", lambda: self._port() or self._ended(), PATIENCE
        )
        return f"openenv:ws://127.0.0.1:{self._port()}"

    def _port(self) -> str:
        found = re.search(r"running on http://127.0.0.1:(\d+)", self._log.read_text())
        return found[1] if found else ""

    def _ended(self) -> bool:
        assert self.process.poll() is None, self._log.read_text()
        return False

    @property
    def sessions(self) -> tuple[int, int]:
        """How many began so far, and how many of them are over."""
        said = self._log.read_text()
        return said.count("a session begins"), said.count("a session is over")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    packages = ("--no-deps", "--no-compile", "-r", str(HERE / "requirements.txt"))
    found = Server(python_with(tmp_path / "python", *packages), tmp_path)
    try:
        yield found
    finally:
        found.process.kill()
        found.process.wait(PATIENCE)


def test_two_actors_train_on_a_server_and_leave_no_session(server: Server, tmp_path: Path) -> None:
    settings = ("envs=2", "steps=32", "hidden=32", "lr=0.01")
    arguments = ("--actors", 2, "--total-steps", 2048, "--seed", 1, "--json")
    chosen = (word for each in settings for word in ("--set", each))
    run = Artos(tmp_path, ("run", "ppo", "--env", server.address, *arguments, *chosen))
    try:
        ended = run.wait()
        assert ended.status == 0, ended.err
        assert ended.summary["restarts"] == 0
        assert ended.summary["mean_return_100"] > 5  # 8 / 3 by chance, 8 at best
        assert not run.survivors()
    finally:
        run.end()
    assert not shared_memory()
    # Two of registration, and one for each environment of each actor.
    until("sessions that are over", lambda: server.sessions == (6, 6))
