"""A throw-away layer over this machine's file system, in namespaces of its own.

Debian's packages are installed into it and daemons run in it, so that the machine stays as it was;
the end of one process ends everything in it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from artos.errors import ArtosError
from evaluation.core.sources import ROOT

PATIENCE = 240.0
"""Seconds; generous, for machines are loaded."""
_SHARED = ("/proc", "/sys", "/dev", "/tmp", str(ROOT), sys.prefix)
"""Places that are as they are outside; any of them may be a file system of its own."""
_SETUP = """
set -e
mount -t tmpfs tmpfs {layer}
mkdir {layer}/upper {layer}/work {layer}/root
mount -t overlay overlay -o lowerdir=/,upperdir={layer}/upper,workdir={layer}/work {layer}/root
for each in {shared}; do mkdir -p {layer}/root$each; mount --rbind $each {layer}/root$each; done
mount -t tmpfs tmpfs {layer}/root/dev/shm
mount -t proc proc {layer}/root/proc
exec chroot {layer}/root sh -c '
    {install}
    echo ready
    exec sleep infinity
'
"""
_INSTALL = (
    "export DEBIAN_FRONTEND=noninteractive; apt-get -qq update && apt-get -qq install -y "
    "--no-install-recommends {packages} >/dev/null || exit 1"
)


def lacking() -> str:
    """Why there can be no layer here, "" if there can."""
    if os.geteuid() != 0:
        return "only root can mount a layer into which Debian's packages are installed"
    wanted = ("unshare", "--mount", "--pid", "--fork", "--uts", "true")
    if subprocess.run(wanted, capture_output=True, check=False).returncode:
        return "no namespaces here"
    return "" if shutil.which("apt-get") else "Debian's packages cannot be installed here"


class LayerFailed(ArtosError):
    """What was to be done in a layer was not. ``what`` it was, ``why`` is what was printed."""

    def __init__(self, what: str, why: str) -> None:
        self.what, self.why = what, why
        super().__init__(f"{what}: {why or 'nothing was printed'}")


def ended(
    words: Sequence[str | Path], seconds: float = PATIENCE, **options: Any
) -> subprocess.CompletedProcess[str]:
    """What became of a command, with the options of ``subprocess.run``.

    Raises:
        LayerFailed: it did not end in time.
    """
    try:
        return subprocess.run(
            words, capture_output=True, text=True, timeout=seconds, stdin=subprocess.DEVNULL,
            check=False, **options,
        )  # fmt: skip
    except subprocess.TimeoutExpired as late:
        what = " ".join(map(str, words))
        raise LayerFailed(what, f"it took more than {seconds:g} s") from late


def printed(what: str, done: subprocess.CompletedProcess[str]) -> str:
    """What a command printed that succeeded.

    Raises:
        LayerFailed: it failed; names ``what`` was run.
    """
    if done.returncode:
        raise LayerFailed(what, f"status {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


class Layer:
    """Runs commands in it, in ``folder`` unless told otherwise; made by ``layer``."""

    def __init__(self, inside: Sequence[str], folder: Path) -> None:
        self._inside, self.folder = inside, folder
        self.variables: dict[str, str] = {
            "PYTHONPATH": str(ROOT), "HOME": str(folder), "OMP_NUM_THREADS": "1",
        }  # fmt: skip
        self._started: list[subprocess.Popen[bytes]] = []

    @property
    def _env(self) -> Mapping[str, str]:
        # Its shared memory is another one than that which the tests have chosen.
        kept = {name: value for name, value in os.environ.items() if name != "ARTOS_SHM"}
        return {**kept, **self.variables}

    def start_node(self, script: str, host: str = "") -> None:
        """A shell script on a node of its own, which has its own name and its own shared memory."""
        self.start(*self._on_node(script, host))

    def start_node_daemon(self, script: str, host: str) -> None:
        """The same for a script that goes into the background; it ends with the layer.

        Raises:
            LayerFailed: it failed.
        """
        self.run(*self._on_node(f"{script} >/dev/null 2>&1", host))

    def _on_node(self, script: str, host: str) -> Sequence[str]:
        enter, named = f"cd {self.folder} && ", f"hostname {host} && " if host else ""
        apart = ("unshare", "--uts", "--mount", "sh", "-c")
        return (*apart, f"{enter}mount -t tmpfs tmpfs /dev/shm && {named}exec {script}")

    def start(self, *words: str) -> None:
        """A process that lives as long as the layer at most; its output goes nowhere."""
        self._started.append(
            subprocess.Popen(
                [*self._inside, *words], env=self._env, stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )
        )  # fmt: skip

    def close(self) -> None:
        """Kill what was started."""
        for each in self._started:
            each.kill()
            each.wait(PATIENCE)

    def run(self, *words: str, cwd: Path | None = None) -> str:
        """What a command prints.

        Raises:
            LayerFailed: it failed.
        """
        return printed(" ".join(words), self.tried(*words, cwd=cwd))

    def tried(
        self, *words: str, cwd: Path | None = None, seconds: float = PATIENCE
    ) -> subprocess.CompletedProcess[str]:
        """What became of a command.

        Raises:
            LayerFailed: it did not end.
        """
        command = [*self._inside, "env", f"--chdir={cwd or self.folder}", *words]
        return ended(command, seconds, env=self._env)

    def until(self, condition: Callable[[], Any], seconds: float = PATIENCE) -> Any:
        """Wait for a condition, and return what it says.

        Raises:
            LayerFailed: it did not come true; the message has the logs.
        """
        end = time.monotonic() + seconds
        while not (found := condition()):
            if time.monotonic() > end:
                raise LayerFailed(f"what was waited for for {seconds:g} s", self.story())
            time.sleep(0.3)
        return found

    def story(self) -> str:
        """The ends of the logs in its folder, for a failure."""
        logs = sorted(self.folder.rglob("*.log"))
        return "\n".join(f"-- {log}\n{log.read_text(errors='replace')[-3000:]}" for log in logs)


@contextmanager
def layer(folder: Path, *packages: str, provides: Sequence[str]) -> Iterator[Layer]:
    """A layer with these packages, which provide these programs; nothing is left afterwards.

    Raises:
        LayerFailed: there can be none here, or the packages could not be installed.
    """
    if why := lacking():
        raise LayerFailed("a layer", why)
    place = folder / "layer"
    place.mkdir()
    installed = all(shutil.which(program) for program in provides)
    install = "true" if installed else _INSTALL.format(packages=" ".join(packages))
    setup = _SETUP.format(layer=place, shared=" ".join(_SHARED), install=install)
    apart = ("unshare", "--mount", "--propagation", "private", "--pid", "--fork",
             "--kill-child=KILL", "sh", "-c", setup)  # fmt: skip
    log = folder / "layer.log"
    with log.open("w") as said:
        holder = subprocess.Popen(apart, stdout=subprocess.PIPE, stderr=said, text=True)
    with holder:
        try:
            assert holder.stdout is not None
            if holder.stdout.readline().strip() != "ready":
                raise LayerFailed(f"installing {', '.join(packages)}", log.read_text())
            children = Path(f"/proc/{holder.pid}/task/{holder.pid}/children").read_text()
            inside = ("nsenter", "--target", children.split()[0], "--mount", "--pid", "--root")
            there = Layer(inside, folder)
            try:
                yield there
            finally:
                there.close()
        finally:
            holder.kill()
    place.rmdir()
