"""The state that a head keeps across restarts, and a lock against a second head: ``RUNS/.head``."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from artos.buffer.segment import shm_root
from artos.errors import Refused
from artos.protocol.unreadable import UNREADABLE
from artos.system import private_folder
from artos.system.closing import Closing
from artos.system.durable import remove_drafts, write_durably
from artos.system.locks import FileLock
from head.daemon.run import State

_LONGEST_SOCKET = 100
"""Most bytes of the path of an ipc socket (the kernel's limit is 107)."""


class HeadState(Closing):
    """The folder of a head beside its runs: state, code, orders, and the socket for run processes.

    ``socket`` is the same for every head of these runs, so that run processes find a restarted
    head. A path that is too long for a socket is replaced by a folder with a random name in shared
    memory, to which a symbolic link leads.
    """

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
        self._needed = self._link.is_symlink() and private_folder.is_ours(self._link.readlink())
        self._sockets = self._link.readlink() if self._needed else self._make_sockets()
        self._file = self.folder / "state.json"
        remove_drafts(self.folder)

    @property
    def socket(self) -> str:
        """The endpoint for run processes."""
        return f"ipc://{self._sockets}/head"

    def load(self) -> State:
        """The state that the last head saved.

        Raises:
            Refused: the state file is damaged.
        """
        try:
            state = msgspec.json.decode(self._file.read_bytes(), type=State)
        except FileNotFoundError:
            state = State()
        except UNREADABLE as error:
            raise Refused(
                [f"{self._file} is damaged ({error}): move it away; the head then forgets its runs"]
            ) from error
        self._needed = _has_living(state)
        return state

    def save(self, state: State) -> None:
        """Save the state so that it survives this process and a power cut."""
        write_durably(self._file, msgspec.json.encode(state))
        self._needed = _has_living(state)

    def _make_sockets(self) -> Path:
        if len(os.fsencode(self._link)) + len("/head") <= _LONGEST_SOCKET:
            return private_folder.keep(self._link)
        self._link.unlink(missing_ok=True)
        folder = private_folder.fresh(shm_root(), "artos-head.")
        self._link.symlink_to(folder)
        folder.mkdir(mode=0o700)
        return folder

    def close(self) -> None:
        """Release the folder; may be called twice. The socket stays while runs need it."""
        if self._lock.fileno() >= 0:
            if not self._needed and private_folder.remove(self._sockets):
                self._link.unlink(missing_ok=True)
            self._lock.close()


def _has_living(state: State) -> bool:
    return any(run.active for run in state.runs)
