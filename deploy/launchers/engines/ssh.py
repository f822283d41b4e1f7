"""Machines that ssh reaches: the head runs on this one, a worker on each of the hosts.

Uses the system's ``ssh``, so all that a user has configured (keys, jump hosts, ports) holds. Each
host has ARTOS under the same path as this machine (or ``--python``). What a worker needs is copied
to a folder there: its own key, never one of a user's. It is that worker's alone, as hosts may share
a home.
"""

from __future__ import annotations

import io
import shlex
import shutil
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar

from artos.system.regular_file import contents, opened
from deploy.launchers import processes
from deploy.launchers.cluster import HEAD, RECORD, Cluster
from deploy.launchers.launcher import EngineFailed, Launcher, Unit, last_said

_SECONDS, _CONNECT_SECONDS = 60.0, 10
_AT_ONCE = 32
_FOLDER = ".artos/nodes/{}-{}"
"""On each host, below the user's home."""
_NEEDED = ("head.key", "nodes/any.key_secret")
"""Keys of a worker, within the folder of keys."""
_BEGINS = "artos begins"
"""What a script prints first: a user's shell may have said something before that."""
_ALIVE = """
echo "{begins}"
umask 077; mkdir -p {folder} && cd {folder} || exit 1
alive() {{
  [ -s "$1" ] && read -r pid began <"$1" || return 1
  set -- $(cut -d' ' -f3,22 "/proc/$pid/stat" 2>/dev/null)
  [ "${{1:-Z}}" != Z ] && [ "$2" = "$began" ]
}}
"""
_BEGIN = """
if alive {pid}; then exit 0; fi
ready() {{
  have=$({python} -c 'from artos.version import VERSION; print(VERSION)') || return
  [ "$have" = {version} ] || {{ echo "it has ARTOS $have, not {version}" >&2; return 1; }}
  tar -xf -
}}
ready 2>{why} || {{ cat {why} >&2; exit 1; }}
: >{why}
setsid nohup {python} -m deploy.launchers.unit . {index} >>{log} 2>&1 </dev/null &
note() {{ echo "$! $(cut -d' ' -f22 "/proc/$!/stat")" >{pid}.new && mv {pid}.new {pid}; }}
note || {{ kill -KILL "$!"; exit 1; }}  # nobody would find it again
"""
_LOOK = 'if alive {pid}; then echo "$pid $(stat -c %Y {pid} || echo 0)"; else rm -f {pid}; fi'
_WHY = """
if alive {pid}; then exit 0; fi
tail -n 1 {why} 2>/dev/null | grep . || if [ {log} -nt {why} ]; then tail -n 1 {log}; fi
"""
_STOP = 'if alive {pid}; then kill -{signal} "$pid"; fi'
_CLEAR = """
cat {log} 2>/dev/null
cd .. && rm -rf ./{index} || exit 1
cd .. && rmdir {folder} 2>/dev/null || true  # another worker's folder may be in it
"""


class Engine(Launcher):
    """The hosts of a cluster, one worker on each."""

    ignores: ClassVar[Mapping[str, str]] = {"head_options": "the head is a process of this machine"}

    @staticmethod
    def misasked(cluster: Cluster) -> list[str]:
        """Whether there are enough hosts, and each is one to ssh."""
        if wrong := [host for host in cluster.hosts if host.startswith("-") or " " in host]:
            return [f"ssh: --hosts: {host!r} is no host: write one a line" for host in wrong]
        if not cluster.hosts:
            return ["ssh: give --hosts FILE, which names a machine a line"]
        if len(cluster.hosts) < cluster.most:
            return [
                f"ssh: --hosts names {len(cluster.hosts)} hosts for --nodes {cluster.most}: one "
                "worker runs on each"
            ]
        return []

    @staticmethod
    def faults(cluster: Cluster) -> list[str]:
        """Whether there is an ssh."""
        if shutil.which("ssh") is None:
            return ["ssh: there is no ssh on this machine (Debian: openssh-client)"]
        return []

    def plan(self) -> Mapping[str, str]:
        """The script that starts each worker."""
        return {
            f"worker-{index}.sh": f"# ssh {self._cluster.hosts[index]}{self._begin(index)}"
            for index, _ in enumerate(self._cluster.hosts[: self._cluster.least])
        }

    def start(self, indexes: Sequence[int]) -> None:
        """Start the head here, or workers on their hosts."""
        if HEAD in indexes:
            processes.start(self._cluster, HEAD)
        indexes = [index for index in indexes if index != HEAD]
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            for _ in threads.map(self._start_worker, indexes):
                pass

    def units(self) -> list[Unit]:
        """The processes that live, by their files; a host that cannot be reached has a dead one."""
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            indexes = range(len(self._cluster.hosts))
            found = [unit for units in threads.map(self._unit, indexes) for unit in units]
        return [*processes.found(self._cluster, HEAD), *found]

    def stop(self, unit: Unit, *, now: bool = False) -> None:
        """Send SIGTERM, or SIGKILL ``now``."""
        if unit.index == HEAD:
            processes.stop(unit, now=now)
            return
        script = _STOP.format(signal="KILL" if now else "TERM", **_files(unit.index))
        self._ssh(unit.index, f"stop worker {unit.index}", script)

    def log(self, index: int) -> str:
        """A worker's is on its host until ``clear`` brings it here."""
        if index == HEAD:
            return super().log(index)
        return f"{self._cluster.hosts[index]}:{self._folder}/{index}/{_files(index)['log']}"

    def refusal(self, workers: Sequence[int]) -> str:
        """Why they could not be started on their hosts, or what they said last."""
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            told = threads.map(self._why, workers)
            return "; ".join(why for why in told if why)

    def clear(self) -> None:
        """Bring the workers' logs here, and remove all that is on their hosts."""
        processes.clear(self._cluster, HEAD)
        folder, failed = shlex.quote(Path(self._folder).name), []
        for index, host in enumerate(self._cluster.hosts):
            script = _CLEAR.format(folder=folder, index=index, **_files(index))
            try:
                log = self._ssh(index, "remove its keys", script)
            except EngineFailed as fault:
                failed.append(f"{host}: {fault.why}")
                continue
            with opened(self._cluster.log(index), "ab") as file:
                file.write(log)
        if failed:
            raise EngineFailed("ssh", f"remove all from {self._folder}", "; ".join(failed))

    # -- workers -----------------------------------------------------------------------------------

    @property
    def _folder(self) -> str:
        return _FOLDER.format(self._cluster.name, self._cluster.mark)

    def _begin(self, index: int) -> str:
        python, version = map(shlex.quote, (self._cluster.python, self._cluster.version))
        return _BEGIN.format(python=python, version=version, index=index, **_files(index))

    def _start_worker(self, index: int) -> None:
        """Its record, the head's address and its key go there as a tar on standard input."""
        cluster, packed = self._cluster, io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as tar:
            try:
                files = {RECORD: cluster.record(), cluster.address.name: contents(cluster.address)}
                files |= {f"keys/{name}": contents(cluster.keys / name) for name in _NEEDED}
            except OSError as error:  # the head is started again, and will write its address
                raise EngineFailed("ssh", f"start worker {index}", str(error)) from error
            for name, content in files.items():
                about = tarfile.TarInfo(name)
                about.size, about.mode = len(content), 0o600
                tar.addfile(about, io.BytesIO(content))
        self._ssh(index, f"start worker {index}", self._begin(index), packed.getvalue())

    def _unit(self, index: int) -> list[Unit]:
        host = self._cluster.hosts[index]
        try:
            told = self._ssh(index, "say what runs there", _LOOK.format(**_files(index))).decode()
        except EngineFailed as failed:
            return [Unit(index, host, "lost", host, failed.why)]
        found = (line.split() for line in told.splitlines())
        return [Unit(index, pid, "runs", host, "", float(began)) for pid, began in found]

    def _why(self, index: int) -> str:
        host = self._cluster.hosts[index]
        try:
            told = self._ssh(index, "say what it lacks", _WHY.format(**_files(index)))
        except EngineFailed:
            return ""  # that it cannot be reached is said of its unit
        why = last_said(told.decode(errors="replace"))
        return f"{host}: {why}" if why else ""

    def _ssh(self, index: int, what: str, script: str, sent: bytes = b"") -> bytes:
        """Run a script on a worker's host, in its folder there; returns what it prints."""
        host, folder = self._cluster.hosts[index], shlex.quote(f"{self._folder}/{index}")
        remote = shlex.join(["sh", "-c", _ALIVE.format(begins=_BEGINS, folder=folder) + script])
        words = ("ssh", "-o", "BatchMode=yes", "-o", f"ConnectTimeout={_CONNECT_SECONDS}")
        command = [*words, *self._cluster.worker_options, host, remote]
        try:
            done = subprocess.run(
                command, input=sent, capture_output=True, timeout=_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise EngineFailed("ssh", f"{what} on {host}", str(error)) from error
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip() or f"status {done.returncode}"
            raise EngineFailed("ssh", f"{what} on {host}", said)
        _, begun, told = done.stdout.partition(f"{_BEGINS}\n".encode())
        if not begun:
            why = "its shell did not run what it was sent, as a forced command does not"
            raise EngineFailed("ssh", f"{what} on {host}", why)
        return told


def _files(index: int) -> dict[str, str]:
    """A worker's files on its host: its process, why there is none, and its log."""
    return {"pid": f"unit-{index}.pid", "why": f"unit-{index}.why", "log": f"worker-{index}.log"}
