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

import pytest
from helpers import PATIENCE, ROOT

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


needs_layer = pytest.mark.skipif(bool(lacking()), reason=lacking())


class Layer:
    """Runs commands in it; made by ``layer``."""

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

    def start(self, *words: str) -> None:
        """A process that lives as long as the layer."""
        self._started.append(
            subprocess.Popen(
                [*self._inside, *words], env=self._env, stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )
        )  # fmt: skip

    def close(self) -> None:
        for each in self._started:
            each.kill()
            each.wait(PATIENCE)

    def run(self, *words: str, cwd: Path | None = None) -> str:
        """What a command prints that succeeds."""
        done = self.tried(*words, cwd=cwd)
        assert done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def tried(self, *words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self._inside, "env", f"--chdir={cwd or self.folder}", *words], env=self._env,
            capture_output=True, text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL,
            check=False,
        )  # fmt: skip

    def until(self, condition: Callable[[], Any], seconds: float = PATIENCE) -> Any:
        end = time.monotonic() + seconds
        while not (found := condition()):
            assert time.monotonic() < end, self.story()
            time.sleep(0.3)
        return found

    def story(self) -> str:
        """The logs in its folder, for a failure."""
        logs = sorted(self.folder.rglob("*.log"))
        return "\n".join(f"-- {log}\n{log.read_text(errors='replace')[-3000:]}" for log in logs)


@contextmanager
def layer(folder: Path, *packages: str, provides: str) -> Iterator[Layer]:
    """A layer with these packages, which provide that program; nothing of it is left afterwards."""
    place = folder / "layer"
    place.mkdir()
    installed = shutil.which(provides) is not None
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
            assert holder.stdout.readline().strip() == "ready", log.read_text()
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
