"""A cluster of real daemons, each on a host of its own: a network namespace and a /dev/shm."""

from __future__ import annotations

import ctypes
import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
from books import assert_each_row_once, book_of
from real_cluster import DEADLINE, Cluster, Command

from artos.buffer.actor_block import ActorBlock
from artos.errors import DeadlineExceeded
from deploy.client.head_client import HeadClient
from evaluation.lab.namespaces import Host, Network, until

STOP_SECONDS = 6.0
_NEWNET = 0x40000000


class Machines(Cluster):
    """A head and workers that see each other over a network that a test can cut.

    ``code`` is the user's folder. ``more`` goes into the environment of every daemon.
    """

    def __init__(
        self, network: Network, folder: Path, code: Path, deadline: float = DEADLINE, **more: str
    ) -> None:
        self._network, self._code, self._more = network, code, more
        self.hosts = {name: network.host(name) for name in ("head", "w1", "w2")}
        super().__init__(folder, deadline, f"tcp://{self.hosts['head'].address}:4780")

    def _connected(self) -> HeadClient:
        with _threads_on(self.hosts["head"]):
            return super()._connected()

    def start(
        self, name: str, *arguments: object, cwd: Path | None = None,
        within: Sequence[str] = (), **more: str,
    ) -> Command:  # fmt: skip
        """On the host of that name; users sit at the head."""
        within = (*self.hosts.get(name, self.hosts["head"]).command(), *within)
        environment = {"ARTOS_SHM": "/dev/shm", **self._more, **more}
        folder = cwd or self.folder
        command = Command(self.folder, name, folder, *arguments, within=within, **environment)
        self.others.append(command)
        return command

    def daemons(self) -> dict[str, Command]:
        """Those that run, by host."""
        each = {**self.workers, "head": self.head}
        return {name: daemon for name, daemon in each.items() if daemon.process.poll() is None}

    def close(self) -> None:
        """End the daemons; the network ends everything else."""
        for command in self.others:
            command.kill()
        self._client.close()

    # -- a run ---------------------------------------------------------------------------------

    def under_way(self, workload: str = "counting", rows: int = 4800) -> Command:
        """A run that somebody waits for, in the middle of its work on two workers."""
        for worker in ("w1", "w2"):
            self.start_worker(worker, "--stop-seconds", STOP_SECONDS)
        self.alive("w1", "w2")
        self.run, self._rows = f"{workload}-workload-seed1-1", rows
        place = self._code / f"{workload}.py:workload"
        submit = self.submit(place, "--total-steps", rows, "--json")
        self.until_under_way(self.run)
        return submit

    def finished(self, submit: Command, lives: int = 1) -> dict[str, Any]:
        """Its summary; each row was learned from once, and after the daemons nothing is left.

        ``lives`` counts the run processes that it took.
        """
        self.hurry()
        assert submit.wait() == 0, self.story()
        summary: dict[str, Any] = json.loads(submit.out)
        assert (summary["outcome"], summary["steps"]) == ("done", self._rows)
        assert_each_row_once(self.runs / self.run, self._rows, 2, lives)
        assert summary["rows_lost"] == sum(line["lost"] for line in self.lost())
        self.until(lambda: not self.left())
        self.leave_nothing()
        return summary

    def leave_nothing(self) -> None:
        """Stop the daemons, as a user would."""
        daemons = self.daemons()
        assert self.stop() == dict.fromkeys(daemons, 0), self.story()
        sockets = [path for path in self.folder.rglob("*") if path.is_socket()]
        assert (self.left(), sockets) == ([], [])

    def has_saved(self) -> bool:
        """Whether the run has a checkpoint of something learned."""
        manifest = self.runs / self.run / "checkpoint" / "manifest.json"
        return manifest.exists() and json.loads(manifest.read_text())["updates"] > 0

    def said_of_run(self) -> dict[str, Any]:
        """What the head says of it."""
        known: dict[str, Any] = self.status()[1][self.run]
        return known

    def silence(self, node: str) -> int:
        """For how many seconds the run says that it has been waiting for a node."""
        said = self.said_of_run()["waits_for"]
        found = re.search(rf"node {node}, not heard for (\d+) s", said)
        return int(found[1]) if found else 0

    def goes_on(self, updates: int = 3) -> None:
        """Wait until the learner, with or without a head, has done some more updates."""
        before = self._updates()
        self.until(lambda: self._updates() >= before + updates)

    def _updates(self) -> int:
        return sum(line.get("by") == "learner" for line in self._journal())

    def lost(self) -> list[dict[str, Any]]:
        """What the run listed as lost."""
        return [line for line in self._journal() if "lost" in line]

    def _journal(self) -> list[dict[str, Any]]:
        lines = (self.runs / self.run / "journal.jsonl").read_text().split("\n")
        return [json.loads(line) for line in lines[:-1]]  # the last may be half written

    def arrived(self, actor: int) -> int:
        """Rows that the learner got from the first place of an actor."""
        book = book_of(self.runs / self.run)
        places = book[book[:, 0] == actor][:, 2]
        return int((places == places[0]).sum())

    # -- hosts ---------------------------------------------------------------------------------

    @contextmanager
    def cut(self, name: str) -> Iterator[None]:
        """Meanwhile the host's cable is out."""
        self._set_cable(name, "down")
        yield
        self._set_cable(name, "up")

    def _set_cable(self, name: str, state: str) -> None:
        host = self.hosts[name]
        host._switch.do("ip", "link", "set", host._port, state)

    def kill(self, name: str, log: str) -> None:
        """SIGKILL for the one on the host that writes to that log."""
        (process,) = [each for each in self._processes(name) if _output(each) == log]
        process.kill()

    def cut_off(self, name: str) -> dict[int, int]:
        """Cut a host when actors there have committed what has not arrived; rows of each actor."""
        while True:
            self._set_cable(name, "down")
            with suppress(DeadlineExceeded):
                until("rows that cannot arrive", lambda: self._ahead(name), 1.0)
                return self.committed(name)
            self._set_cable(name, "up")
            self.goes_on(1)

    def _ahead(self, name: str) -> bool:
        arrived = self.committed("head")
        return any(rows > arrived[actor] for actor, rows in self.committed(name).items())

    def committed(self, name: str) -> dict[int, int]:
        """Rows that actors have committed on the host, by what its memory holds."""
        memory = Path(f"/proc/{self.hosts[name].pid}/root/dev/shm")
        blocks = memory.glob("artos.*/actor-*")
        return {
            int(path.name.partition("-")[2]): ActorBlock.attach(path).written for path in blocks
        }

    def tear_down(self, name: str) -> None:
        """The host is gone, and so is all that it had in memory."""
        self.hosts.pop(name).close()
        self.workers.pop(name).wait()

    def bring_back(self, name: str) -> None:
        """The host is there again, with what it had on its disk."""
        self.hosts[name] = self._network.host(name)
        self.start_worker(name)

    def _processes(self, name: str) -> list[psutil.Process]:
        found = []
        for pid in self.hosts[name].processes():
            with suppress(psutil.NoSuchProcess):
                found.append(psutil.Process(pid))
        return found

    def left(self) -> list[str]:
        """Processes, memory and images that there must not be any more; daemons may run."""
        daemons = {daemon.process.pid for daemon in self.daemons().values()}
        left = [str(path) for path in self.folder.glob("*/artos/nodes/*/*/images/*")]
        for name, host in self.hosts.items():
            there = [each for each in self._processes(name) if each.pid not in daemons]
            left += [f"{name}: {each.pid} {_output(each)}" for each in there]
            # Daemons that live mark their CPUs.
            lives = any(daemon.process.poll() is None for daemon in self.daemons().values())
            segments = [path for path in _segments(host) if not (lives and "artos-cpu-" in path)]
            left += [f"{name}: {path}" for path in segments]
        return left


def _segments(host: Host) -> list[str]:
    return host.do("find", "/dev/shm", "-mindepth", 1).splitlines()


def _output(process: psutil.Process) -> str:
    try:
        return Path(f"/proc/{process.pid}/fd/1").readlink().name
    except OSError:
        return ""


@contextmanager
def _threads_on(host: Host) -> Iterator[None]:
    """Threads that this one starts meanwhile have their sockets on that host."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    there = os.open(f"/proc/{host.pid}/ns/net", os.O_RDONLY)
    try:
        _enter(there)
        yield
    finally:
        _enter(home)
        os.close(there)
        os.close(home)


def _enter(namespace: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, _NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")
