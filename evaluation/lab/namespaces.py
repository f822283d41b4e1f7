"""Hosts on one machine: network namespaces, each with its /dev/shm, joined by a virtual switch.

For failure tests and benchmarks of a cluster. Needs root and iproute2. Nothing outside the
namespaces is touched, and the namespaces vanish with their processes.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import psutil

from artos.errors import DeadlineExceeded
from artos.system.closing import Closing
from artos.system.process_stat import ProcessStat

_NET = "10.77.0"
_TOOLS = ("ip", "tc", "unshare", "nsenter", "mount")
_HOLD = "mount -t tmpfs -o size={shm}m tmpfs /dev/shm && ip link set lo up && echo up && exec cat"
_PATIENCE = 10.0
_BURST = 256 << 10


def why_not() -> str:
    """The reason why namespaces cannot be made here; empty if they can."""
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if os.geteuid() != 0:
        return "network namespaces need root"
    if missing:
        return f"{', '.join(missing)} is missing: apt-get install iproute2 util-linux"
    tried = subprocess.run(
        ["unshare", "--net", "--mount", "ip", "link", "add", "br0", "type", "bridge"],
        capture_output=True,
        text=True,
        check=False,
    )
    return tried.stderr.strip()


class _Space(Closing):
    """A pair of network and mount namespaces, held open by one process."""

    def __init__(self, shm_mb: int) -> None:
        self._holder = subprocess.Popen(
            ["unshare", "--net", "--mount", "sh", "-c", _HOLD.format(shm=shm_mb)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == b"up\n", "no namespace"
        self.pid = self._holder.pid

    def command(self, *words: object) -> list[str]:
        """The command that runs ``words`` inside."""
        here = f"--wdns={Path.cwd()}"
        target = f"--target={self.pid}"
        return ["nsenter", target, "--net", "--mount", here, *map(str, words)]

    def do(self, *words: object) -> str:
        """Run a command inside and wait for it; returns its output."""
        done = subprocess.run(
            self.command(*words),
            check=True,
            text=True,
            timeout=_PATIENCE,
            stdout=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
        )
        return done.stdout

    def processes(self) -> Iterator[int]:
        """Processes that run inside, except the holder."""
        own = Path(f"/proc/{self.pid}/ns/net").stat().st_ino
        for pid in psutil.pids():
            entry = Path(f"/proc/{pid}")
            with suppress(OSError):
                inside = (entry / "ns/net").stat().st_ino == own
                if inside and pid != self.pid and ProcessStat.of(entry.name).state not in "ZX":
                    yield pid

    def close(self) -> None:
        """Kill all processes inside; the namespaces vanish with them."""
        deadline = time.monotonic() + _PATIENCE
        while self._holder.poll() is None and (left := list(self.processes())):
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if time.monotonic() > deadline:
                raise DeadlineExceeded(f"the end of processes {left}", _PATIENCE)
        self._holder.kill()
        self._holder.communicate()


class Host(_Space):
    """One host of the network: an address, a /dev/shm, and its processes."""

    def __init__(self, name: str, number: int, switch: _Space, shm_mb: int) -> None:
        super().__init__(shm_mb)
        self.name, self.address = name, f"{_NET}.{number}"
        self._switch, self._port = switch, f"port{number}"
        switch.do(
            "ip", "link", "add", self._port, "type", "veth", "peer", "eth0", "netns", self.pid
        )
        switch.do("ip", "link", "set", self._port, "master", "br0", "up")
        self.do("ip", "address", "add", f"{self.address}/24", "dev", "eth0")
        self.do("ip", "link", "set", "eth0", "up")

    def start(
        self, *words: object, environment: Mapping[str, str] | None = None, **options: Any
    ) -> subprocess.Popen[Any]:
        """Start a command on the host; signals to the returned process reach the command."""
        env = {**os.environ, "ARTOS_SHM": "/dev/shm", **(environment or {})}
        return subprocess.Popen(self.command(*words), env=env, start_new_session=True, **options)

    def python(self, *words: object, **options: Any) -> subprocess.Popen[Any]:
        """Start this Python interpreter on the host."""
        return self.start(sys.executable, *words, **options)

    def throttle(self, mbit: float | None) -> None:
        """Limit the host's link in both directions (Mbit/s, token bucket); None: no limit."""
        for space, device in ((self, "eth0"), (self._switch, self._port)):
            with suppress(subprocess.CalledProcessError):
                subprocess.run(
                    space.command("tc", "qdisc", "del", "dev", device, "root"),
                    check=True,
                    stderr=subprocess.DEVNULL,
                )
            if mbit is not None:
                burst = max(_BURST, int(mbit * 1e6 / 8 / 250))
                space.do(
                    "tc", "qdisc", "add", "dev", device, "root", "tbf", "rate", f"{mbit}mbit",
                    "burst", burst, "latency", "50ms",
                )  # fmt: skip

    def sent_bytes(self) -> int:
        """Bytes the host has sent since it was made."""
        return self._wire_bytes("tx")

    def received_bytes(self) -> int:
        """Bytes the host has received since it was made."""
        return self._wire_bytes("rx")

    def _wire_bytes(self, way: str) -> int:
        (link,) = json.loads(self.do("ip", "-json", "-statistics", "link", "show", "eth0"))
        return int(link["stats64"][way]["bytes"])

    def cpu_seconds(self) -> float:
        """CPU-seconds used so far by the processes that run on the host."""
        used = 0.0
        for pid in self.processes():
            with suppress(psutil.NoSuchProcess):
                used += sum(psutil.Process(pid).cpu_times()[:2])
        return used


class Network(Closing):
    """A switch and the hosts on it; leaving the context ends all of them."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._switch = self._stack.enter_context(_Space(1))
        self._switch.do("ip", "link", "add", "br0", "type", "bridge")
        self._switch.do("ip", "link", "set", "br0", "up")
        self.hosts: list[Host] = []

    def host(self, name: str, shm_mb: int = 4096) -> Host:
        """Add a host."""
        host = Host(name, len(self.hosts) + 1, self._switch, shm_mb)
        self.hosts.append(self._stack.enter_context(host))
        return host

    def close(self) -> None:
        """End every host and its processes."""
        self._stack.close()


def until(what: str, true: Callable[[], object], seconds: float = _PATIENCE) -> None:
    """Wait until ``true()`` holds.

    Raises:
        DeadlineExceeded: it did not hold in time; the message names ``what``.
    """
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            raise DeadlineExceeded(what, seconds)
        time.sleep(0.01)
