"""The folder of what a head keeps across restarts, and a lock against a second: ``RUNS/.head``."""

from __future__ import annotations

import os
from pathlib import Path

from artos.errors import Refused
from artos.system import private_folder
from artos.system.closing import Closing
from artos.system.locks import FileLock
from artos.system.shm import shm_root

_PREFIX = "artos-head."
_LONGEST_SOCKET = 100
"""Most bytes of the path of an ipc socket (the kernel's limit is 107)."""


class HeadState(Closing):
    """A head's folder next to its runs: state, code, orders, and the socket for run processes."""

    def __init__(self, runs: Path) -> None:
        self.runs, self.folder = runs, runs / ".head"
        try:
            private_folder.keep(self.folder)
        except OSError as error:
            raise Refused([f"--runs {runs}: {error.strerror}"]) from error
        lock = FileLock.take(self.folder / "lock")
        if lock is None:
            raise Refused([f"another head uses the runs in {runs}: choose another --runs"])
        self._lock = lock
        self._link = self.folder / "ipc"
        self.needed = self._link.is_symlink() and _is_made_here(self._link.readlink())
        if self.needed:
            self._sockets = self._link.readlink()
        elif len(os.fsencode(self._link)) + len("/head") <= _LONGEST_SOCKET:
            self._sockets = private_folder.keep(self._link)
        else:
            # Its path would be too long: it is in shared memory, and a symbolic link leads there.
            self._link.unlink(missing_ok=True)
            self._sockets = private_folder.fresh(shm_root(), _PREFIX)
            if (excess := len(os.fsencode(self._sockets)) + len("/head") - _LONGEST_SOCKET) > 0:
                lock.close()
                raise Refused(
                    [f"the paths of --runs ({runs}) and of shared memory ({self._sockets.parent}) "
                     f"are both too long for a socket: shorten the latter by {excess} bytes"]
                )  # fmt: skip
            self._link.symlink_to(self._sockets)
            self._sockets.mkdir(mode=0o700)

    @property
    def socket(self) -> str:
        """The endpoint for run processes, which find a restarted head at the same one."""
        return f"ipc://{self._sockets}/head"

    def close(self) -> None:
        """Release the folder; may be called twice. The socket stays while runs need it."""
        if self._lock.fileno() >= 0:
            if not self.needed and private_folder.remove(self._sockets):
                self._link.unlink(missing_ok=True)
            self._lock.close()


def _is_made_here(sockets: Path) -> bool:
    return private_folder.is_fresh(sockets, _PREFIX) and private_folder.is_ours(sockets)
