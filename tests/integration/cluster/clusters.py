"""A cluster without daemons: the test is the head daemon and the worker daemons of one run."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
from helpers import PATIENCE, ROOT, below

from artos.buffer.shm_folder import PREFIX, reap_orphans
from artos.protocol import control
from artos.protocol.message import Message, Refusal
from artos.runs.orders import ExecutorOrder, RunOrder, write_order
from artos.system.shm import shm_root
from artos.system.signals import CLOSE
from artos.transport.keys import Keys, make_keys
from artos.transport.messenger import Messenger


class Cluster:
    """One run process and its executors, as real processes over real sockets on the loopback.

    ``code`` is the user's folder on the head; each node has a copy of its own.
    """

    def __init__(self, folder: Path, code: Path) -> None:
        self.folder, self.code = folder, code
        self.run_folder = folder / "run"
        make_keys(folder / "keys")
        self._socket = shm_root() / "head.ipc"
        self._rung = threading.Event()
        self.messenger = Messenger.serve(f"ipc://{self._socket}", None, self._rung.set)
        self.epoch = 0
        self.ups: list[control.RunUp] = []
        self.news: list[control.RunNews] = []
        self.scaled: list[control.RunScaled] = []
        self.run: subprocess.Popen[bytes] | None = None
        self.executors: dict[str, subprocess.Popen[bytes]] = {}
        self._known: dict[int, psutil.Process] = {}
        self._read, self._lines = 0, list[dict[str, Any]]()

    # -- processes -----------------------------------------------------------------------------

    def begin(
        self, workload: str, *, resume: bool = False, deadline: float = 300.0, **settings: Any
    ) -> None:
        """Start the run process and wait until it is up."""
        self.epoch += 1
        self._read, self._lines = 0, []
        request = {
            "workload": workload, "settings": settings, "seed": 3, "deadline": deadline,
        }  # fmt: skip
        order = RunOrder(
            "run", self.epoch, request, str(self.code), "", str(self.run_folder), "127.0.0.1",
            str(self.folder / "keys"), self.messenger.endpoint, resume,
        )  # fmt: skip
        self.run = self._start("head.run", order, "run")
        self.until(lambda: self.ups and self.ups[-1].epoch == self.epoch)

    def open(
        self, node: str, cpus: tuple[int, ...] | None = None, steering: str = "", *,
        criu: bool = True,
    ) -> None:  # fmt: skip
        """Start an executor on the node; it is steered over another endpoint if one is given.

        Without ``criu`` it finds none.
        """
        up, code = self.ups[-1], self.folder / f"code-{node}"
        if not code.exists():
            shutil.copytree(self.code, code)
        assign = control.Assign(
            "run", up.epoch, up.plan, up.folder, "", steering or up.steering, up.experience, 2
        )
        own = self.folder / node
        order = ExecutorOrder(
            assign, node, str(self.folder / "keys"), str(code), str(own / "logs"),
            str(own / "images"), cpus or tuple(sorted(os.sched_getaffinity(0))),
        )  # fmt: skip
        without = {} if criu else {"ARTOS_CRIU": str(self.folder / "no-criu")}
        self.executors[node] = self._start("workers.executor", order, node, **without)

    def _start(
        self, module: str, order: RunOrder | ExecutorOrder, name: str, **environment: str
    ) -> Any:
        file = self.folder / f"{name}.json"
        write_order(file, order)
        with self.log(name).open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-P", "-m", module, str(file)], stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, cwd=self.folder, start_new_session=True,
                env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **environment},
            )  # fmt: skip

    def log(self, name: str) -> Path:
        """Where a process of that name writes to."""
        return self.folder / f"{name}.log"

    def answer(self, me: str, message: Message) -> str:
        """Why a run refuses what somebody with one of its keys says over steering."""
        rung = threading.Event()
        keys = Keys.load(self.folder / "keys")
        with Messenger.connect(self.ups[-1].steering, keys, me, rung.set) as messenger:
            messenger.send("head", message)
            assert rung.wait(PATIENCE)
            ((_, refusal),) = messenger.take()
        assert isinstance(refusal, Refusal)
        return refusal.why

    def restart_head(self) -> None:
        """Another head daemon in the place of the one that was there."""
        self.messenger.close(0.0)
        self.messenger = Messenger.serve(f"ipc://{self._socket}", None, self._rung.set)

    def place(self, actors: Mapping[int, str], *gone: str, why: str = "") -> None:
        """Say where actors are to live, and who is gone."""
        self.messenger.send("run", control.Placed(dict(actors), gone, why))

    def scale(self, actors: int) -> control.RunScaled:
        """Have the run go on with so many actors; returns its answer."""
        before = len(self.scaled)
        self.messenger.send("run", control.ScaleRun("run", actors))
        self.until(lambda: len(self.scaled) > before)
        return self.scaled[-1]

    def stop(self) -> None:
        """Have the run finish and save, as a head does."""
        assert self.run is not None
        self.run.send_signal(CLOSE)

    def member(self, process: subprocess.Popen[bytes], log: str) -> psutil.Process | None:
        """The child of a process whose output goes to that log."""
        for child in below(process.pid):
            try:
                output = Path(f"/proc/{child.pid}/fd/1").readlink().name
            except OSError:
                continue
            if output == log and child.status() != psutil.STATUS_ZOMBIE:
                return child
        return None

    def kill_learner(self, name: str = "learner") -> None:
        """SIGKILL for a learner."""
        assert self.run is not None
        learner = self.member(self.run, f"{name}.log")
        assert learner is not None
        learner.kill()

    def memory_of(self, node: str) -> Path:
        """The folder of an executor's shared memory."""
        (folder,) = shm_root().glob(f"{PREFIX}run.{node}.*")
        return folder

    @contextmanager
    def frozen(self, node: str) -> Iterator[None]:
        """Meanwhile nothing on the node goes on, as if its link was cut."""
        there = _suspended(self.executors[node].pid)
        try:
            yield
        finally:
            for process in there:
                with suppress(psutil.NoSuchProcess):  # it had ended before
                    process.resume()

    def kill_node(self, node: str) -> None:
        """SIGKILL everything there is on the node."""
        executor = self.executors.pop(node)
        there = _suspended(executor.pid)  # so nobody does anything on seeing another die
        for process in there:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        executor.wait(PATIENCE)
        _, alive = psutil.wait_procs(there, PATIENCE)  # each may hold the lock of the memory
        assert not alive
        reap_orphans()  # memory of a node that is gone is gone

    # -- waiting -------------------------------------------------------------------------------

    @contextmanager
    def slowly(self) -> Iterator[None]:
        """Meanwhile a step of the counting environment takes milliseconds."""
        mark = self.folder / "slow"
        mark.touch()
        try:
            yield
        finally:
            mark.unlink()

    def listen(self) -> None:
        """See what the run told its head daemon."""
        for _, message in self.messenger.take():
            match message:
                case control.RunUp():
                    self.ups.append(message)
                case control.RunNews():
                    self.news.append(message)
                case control.RunScaled():
                    self.scaled.append(message)

    def until(self, condition: Callable[[], object], seconds: float = PATIENCE) -> None:
        """Wait until something observable holds while the run goes on."""
        assert self.run is not None
        end = time.monotonic() + seconds
        while True:
            self.listen()
            self._remember()
            if condition():
                return
            assert self.run.poll() is None, f"the run ended early:\n{self.said()}"
            assert time.monotonic() < end, f"it never came\n{self.said()}"
            self._rung.wait(0.02)
            self._rung.clear()

    def until_update(self, count: int, name: str = "learner") -> None:
        """Wait until so many updates of a learner are in the journal."""
        self.until(lambda: self.updates(name) >= count)

    def finish(self, seconds: float = PATIENCE) -> dict[str, Any]:
        """Wait for the end of the run and of its executors; returns the summary."""
        assert self.run is not None
        end = time.monotonic() + seconds
        for process in (self.run, *self.executors.values()):
            while process.poll() is None:
                self.listen()
                self._remember()
                assert time.monotonic() < end, f"it did not end\n{self.said()}"
                self._rung.wait(0.05)
                self._rung.clear()
        self.listen()
        summary: dict[str, Any] = json.loads((self.run_folder / "summary.json").read_text())
        return summary

    def statuses(self) -> dict[str, int | None]:
        """Exit statuses of the run and of the executors."""
        found = {node: executor.returncode for node, executor in self.executors.items()}
        return {**found, "run": self.run.returncode if self.run else None}

    def journal(self) -> list[dict[str, Any]]:
        """All lines of the run's journal so far; a last one half written is left out."""
        path = self.run_folder / "journal.jsonl"
        if path.exists():  # what is waited for is looked for often, and most lines are known
            with path.open("rb") as file:
                file.seek(self._read)
                *lines, _ = file.read().split(b"\n")
            self._lines += map(json.loads, lines)
            self._read += sum(len(line) + 1 for line in lines)
        return [*self._lines]

    def updates(self, name: str = "learner") -> int:
        """Updates of a learner that the journal says are done."""
        return sum(line.get("by") == name for line in self.journal())

    def said(self) -> str:
        """What all processes wrote."""
        logs = [*self.folder.glob("*.log"), *self.folder.glob("*/logs/*.log")]
        return "\n".join(f"-- {log}\n{log.read_text()[-3000:]}" for log in sorted(logs))

    # -- the end -------------------------------------------------------------------------------

    def _remember(self) -> None:
        for process in (self.run, *self.executors.values()):
            if process is not None:
                self._known |= {child.pid: child for child in below(process.pid)}

    def survivors(self) -> list[str]:
        """What is left of processes and shared memory of this cluster."""
        alive = [
            " ".join(p.cmdline()) for p in self._known.values()
            if p.is_running() and p.status() != psutil.STATUS_ZOMBIE
        ]  # fmt: skip
        return alive + [path.name for path in shm_root().glob(f"{PREFIX}*")]

    def close(self) -> None:
        """End everything."""
        self._remember()
        for process in (self.run, *self.executors.values()):
            if process is not None:
                process.kill()
                process.wait(PATIENCE)
        for child in self._known.values():
            if child.is_running():
                child.send_signal(signal.SIGKILL)
                child.wait(PATIENCE)
        reap_orphans()
        self.messenger.close(0.0)
        self._socket.unlink(missing_ok=True)


def _suspended(pid: int) -> list[psutil.Process]:
    """A process and all below it, stopped, also those that were started meanwhile."""
    there: list[psutil.Process] = []
    while new := [each for each in (psutil.Process(pid), *below(pid)) if each not in there]:
        for process in new:
            with suppress(psutil.NoSuchProcess):
                process.suspend()
        there += new
    return there
