"""A run on an unmodified OpenEnv server, in a process and an environment of its own."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from helpers import PATIENCE
from real_runs import Artos, journal, shared_memory, updates
from worker_hosts import until

from artos.runs.checkpoint import read_manifest
from artos.specs.members import ACTORS, Member
from evaluation.lab.packages import python_with

pytestmark = [pytest.mark.processes, pytest.mark.long]

HERE = Path(__file__).parent


class Server:
    """A server of the environment ``signals_server``, which writes a log."""

    def __init__(self, python: Path, folder: Path, port: int = 0, sessions: int = 16) -> None:
        self._log = folder / "server.log"
        where = ("--port", str(port), "--app-dir", HERE)
        command = ("-m", "uvicorn", "signals_server:app", *where)
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                [python, *command], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder,
                env={"PYTHONDONTWRITEBYTECODE": "1", "SESSIONS": str(sessions)},
            )  # fmt: skip

    @property
    def address(self) -> str:
        """Where it listens; waits until it does."""
        until(
            f"a server that listens:\n{self._log}", lambda: self._port() or self._ended(), PATIENCE
        )
        return f"openenv:ws://127.0.0.1:{self._port()}"

    def kill(self) -> None:
        """It is gone when this returns."""
        self.process.kill()
        self.process.wait(PATIENCE)

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
def serve(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    packages = ("--no-deps", "-r", str(HERE / "requirements.txt"))
    python, started = python_with(tmp_path / "python", *packages), list[Server]()

    def begin(port: int = 0, sessions: int = 16) -> Server:
        started.append(Server(python, tmp_path, port, sessions))
        return started[-1]

    yield begin
    for each in started:
        each.kill()


def test_two_actors_train_on_a_server_and_leave_no_session(
    serve: Callable[..., Server], tmp_path: Path
) -> None:
    server = serve()
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


def test_actors_and_the_server_are_killed_and_no_session_is_left(
    serve: Callable[..., Server], tmp_path: Path
) -> None:
    """The server has as many sessions as two actors need: one that was left would be missed."""
    server, folder = serve(sessions=4), tmp_path / "run"
    chosen = ("--set", "envs=2", "--set", "steps=16", "--set", "hidden=16")
    begin = ("run", "ppo", "--env", server.address, "--actors", 2, *chosen, "--run-dir", folder)
    run = Artos(tmp_path, (*begin, "--total-steps", 10_000_000))

    def goes_on() -> None:
        before = updates(folder)
        run.until(lambda: updates(folder) > before + 3)

    try:
        goes_on()
        run.kill(Member(ACTORS, 1))
        goes_on()
        server.kill()
        server = serve(int(server.address.rpartition(":")[2]), sessions=4)
        goes_on()
        run.signal(signal.SIGINT)
        ended = run.wait()
        assert ended.status == 130, ended.err
    finally:
        run.end()
    died = [line["died"] for line in journal(folder) if "died" in line]
    assert {*died} == {"actor 0", "actor 1"}
    assert died.count("actor 1") > 1, "it was killed, and lost its server like the other one"
    until("sessions that are over", lambda: len({*server.sessions}) == 1)
    steps = read_manifest(folder / "checkpoint").steps
    run = Artos(tmp_path, ("run", "--resume", folder, "--total-steps", steps + 640, "--json"))
    try:
        again = run.wait()
        assert again.status == 0, again.err
        assert again.summary["restarts"] == 0
        assert not run.survivors()
    finally:
        run.end()
    assert not shared_memory()
    until("sessions that are over", lambda: len({*server.sessions}) == 1)
