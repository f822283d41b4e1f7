"""A cluster of real daemons on the loopback, started by the `artos` command as a user would."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import safetensors.numpy
from helpers import PATIENCE, ROOT

from artos.buffer.shm_folder import PREFIX, reap_orphans
from artos.system.shm import shm_root
from artos.transport.keys import make_keys
from deploy.client.head_client import HeadClient

DEADLINE = 4.0
"""Seconds until a silent node is gone: far more than a loaded machine takes to say a word."""


class Command:
    """One `artos` process with its output in files; ``within`` is a command that runs it."""

    def __init__(
        self, folder: Path, name: str, cwd: Path, *arguments: object, within: Sequence[str] = (),
        **more: str,
    ) -> None:  # fmt: skip
        self.name = name
        self._out, self._err = folder / f"{name}.out", folder / f"{name}.err"
        with self._out.open("ab") as out, self._err.open("ab") as err:
            self.process = subprocess.Popen(
                [*within, sys.executable, "-P", "-m", "deploy.cli", *map(str, arguments)],
                stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=cwd, start_new_session=True,
                env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **more},
            )  # fmt: skip

    @property
    def out(self) -> str:
        return self._out.read_text()

    @property
    def said(self) -> str:
        return self._err.read_text()

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self, seconds: float = PATIENCE) -> int:
        return self.process.wait(seconds)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)


class Cluster:
    """A head and workers; each node has a cache of its own. ``config`` is more of head.toml.

    ``within`` is a command that runs the daemons.
    """

    def __init__(
        self, folder: Path, deadline: float = DEADLINE, endpoint: str = "", config: str = "",
        within: Sequence[str] = (),
    ) -> None:  # fmt: skip
        self.folder, self._within = folder, within
        self.keys, self.runs = folder / "keys", folder / "runs"
        make_keys(self.keys)
        self.config = folder / "head.toml"
        self.config.write_text(f"deadline = {deadline}\n{config}")
        self.endpoint = endpoint or f"tcp://127.0.0.1:{_free_port()}"
        self._slow = folder / "slow"
        self._slow.touch()
        self.workers: dict[str, Command] = {}
        self.others: list[Command] = []
        self._client: HeadClient | None = None
        self.head = self.start_head()

    def _connected(self) -> HeadClient:
        return HeadClient(self.endpoint, self.keys)

    # -- processes -----------------------------------------------------------------------------

    def start_head(self, **more: str) -> Command:
        arguments = ("--listen", self.endpoint, "--keys", self.keys, "--runs", self.runs)
        before = self._times_heard()
        flags = ("--config", self.config, *arguments)
        self.head = self.start("head", "head", *flags, within=self._within, **more)
        self.until(lambda: self._times_heard() > before)  # whoever calls earlier is told off
        if self._client is not None:  # it may not have noticed yet that the head is back
            self._client.close()
        self._client = self._connected()
        return self.head

    def _times_heard(self) -> int:
        file = self.folder / "head.err"
        return file.read_text().count("the head listens at") if file.exists() else 0

    def start_worker(
        self, name: str, *flags: object, within: Sequence[str] = (), **more: str
    ) -> Command:
        arguments = ("worker", *self.towards_head, "--name", name, *flags)
        more |= {"XDG_CACHE_HOME": str(self.folder / name)}
        within = within or self._within
        self.workers[name] = self.start(name, *arguments, within=within, **more)
        return self.workers[name]

    def start(
        self, name: str, *arguments: object, cwd: Path | None = None,
        within: Sequence[str] = (), **more: str,
    ) -> Command:  # fmt: skip
        where = cwd or self.folder
        command = Command(self.folder, name, where, *arguments, within=within, **more)
        self.others.append(command)
        return command

    @property
    def towards_head(self) -> tuple[str, ...]:
        return ("--head", self.endpoint, "--keys", str(self.keys))

    def submit(self, *arguments: object, cwd: Path | None = None) -> Command:
        """Submit and wait, in the background."""
        name = f"submit{len(self.others)}"
        return self.start(name, "submit", *arguments, *self.towards_head, "--wait", cwd=cwd)

    def ask(self, *arguments: object, cwd: Path | None = None) -> dict[str, Any]:
        """What a command prints with ``--json``."""
        name, flags = f"ask{len(self.others)}", (*self.towards_head, "--json")
        command = self.start(name, *arguments, *flags, cwd=cwd)
        assert command.wait() == 0, command.said
        answer: dict[str, Any] = json.loads(command.out)
        return answer

    def refused(self, *arguments: object) -> str:
        """What a command says that is refused."""
        command = self.start(f"no{len(self.others)}", *arguments, *self.towards_head)
        assert command.wait() == 2, command.said
        return command.said

    # -- looking -------------------------------------------------------------------------------

    def status(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Nodes and runs by name."""
        assert self._client is not None
        status = self._client.cluster().plain
        return tuple({each["name"]: each for each in status[kind]} for kind in ("nodes", "runs"))  # type: ignore[return-value]

    def until(self, condition: Callable[[], Any], seconds: float = PATIENCE) -> Any:
        end = time.monotonic() + seconds
        while True:
            if found := condition():
                return found
            assert time.monotonic() < end, f"{self.left()}\n{self.story()}"
            time.sleep(0.2)

    def alive(self, *names: str) -> None:
        """Wait until these and no other nodes are alive."""
        self.until(
            lambda: {n for n, node in self.status()[0].items() if node["alive"]} == set(names)
        )

    def until_under_way(self, run: str) -> None:
        """Wait until it has learned something. `counting.py` is slow from the start until then."""

        def under_way() -> bool:
            return bool(self.status()[1].get(run, {}).get("facts", {}).get("updates", 0) >= 5)

        self.until(under_way)

    def hurry(self) -> None:
        """Let `counting.py` be as fast as it can."""
        self._slow.unlink(missing_ok=True)

    def cpus(self, worker: str) -> dict[str, list[int]]:
        """CPUs of a worker by run."""
        orders = (self.folder / worker / "artos" / "nodes").glob("*/*/executor.json")
        return {path.parent.name: json.loads(path.read_bytes())["cpus"] for path in orders}

    def story(self) -> str:
        logs = [*self.runs.glob("*/logs/*.log"), *self.folder.glob("*/artos/nodes/*/*/logs/*.log")]
        parts = {str(path.relative_to(self.folder)): path.read_text()[-2000:] for path in logs}
        parts |= {command.name: command.said[-2000:] for command in self.others if command.said}
        return "\n".join(f"---- {name}\n{text}" for name, text in parts.items())

    def processes(self, module: str) -> list[psutil.Process]:
        """Processes of this cluster that run a module of ours."""
        return [process for process in _of(self.folder) if module in " ".join(_command(process))]

    def left(self) -> list[str]:
        """Everything there must not be any more, daemons aside."""
        daemons = {command.process.pid for command in self.others}
        found = [p for p in _of(self.folder) if p.pid not in daemons]
        memory = [path.name for path in shm_root().glob(f"{PREFIX}*")]
        return [*(" ".join(_command(p))[:200] for p in found), *memory]

    # -- the end -------------------------------------------------------------------------------

    def stop(self) -> dict[str, int]:
        """SIGTERM to all daemons that are left; their exit statuses."""
        left = {n: c for n, c in {**self.workers, "head": self.head}.items() if _runs(c)}
        for command in left.values():
            command.signal(signal.SIGTERM)
        statuses = {name: command.wait() for name, command in left.items()}
        if any(statuses.values()):
            print(self.story())  # pytest shows it with the failure
        return statuses

    def close(self) -> None:
        with closing(self._client):
            for command in self.others:
                command.process.kill()
            end_all(self.folder)
            for command in self.others:
                command.process.wait(PATIENCE)
        while [*shm_root().glob(f"{PREFIX}*")]:  # a folder must be some 0.1 s old
            reap_orphans(kept=True)
            time.sleep(0.1)


def end_all(folder: Path) -> None:
    """Kill the processes of a cluster, also those that are started meanwhile."""
    end = time.monotonic() + PATIENCE
    while left := _of(folder):
        assert time.monotonic() < end, f"they cannot be killed: {left}"
        for process in left:
            with suppress(psutil.NoSuchProcess):  # another one's end may have been its own
                process.kill()
        psutil.wait_procs(left, 1.0)


def _runs(command: Command) -> bool:
    return command.process.poll() is None


def _of(folder: Path) -> list[psutil.Process]:
    """Processes that were started by a daemon of a cluster in ``folder``, or are one."""
    return [*_found(str(folder))]


def _found(folder: str) -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        try:
            if process.status() == psutil.STATUS_ZOMBIE or process.pid == os.getpid():
                continue
            if process.environ().get("ARTOS_SHM") != os.environ["ARTOS_SHM"]:
                continue
            if folder in " ".join(process.cmdline()) or folder in process.cwd():
                yield process
        except psutil.Error:
            continue


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def assert_each_row_once(run: Path, rows: int, actors: int) -> None:
    """What `counting.py` learned from: every actor's rows from 0 on, no gap and no repeat."""
    manifest = json.loads((run / "checkpoint" / "manifest.json").read_text())
    arrays = safetensors.numpy.load_file(run / "checkpoint" / manifest["file"])
    book = arrays["learner.book"][: int(arrays["learner.count"][0])]
    assert len(book) == rows, (run / "summary.json").read_text()
    for actor in range(actors):
        np.testing.assert_array_equal(book[book[:, 0] == actor][:, 1], np.arange(rows // actors))
