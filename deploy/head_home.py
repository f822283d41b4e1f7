"""What a head keeps between two lives, and the lock that there is one only: ``RUNS/.head``."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from pathlib import Path

import msgspec

from artos.buffer.segment import shm_root
from artos.closing import Closing
from artos.errors import Refused
from head.records.durable import remove_drafts, write_durably
from head.runs import State

_LONGEST_SOCKET = 100
"""Bytes that the path of an ipc socket may have (the kernel ends at 107)."""


class HeadHome(Closing):
    """The folder of a head beside its runs: state, code, orders, and where its runs reach it.

    ``socket`` is the same for every head of these runs, so that they find the next one.
    """

    def __init__(self, runs: Path) -> None:
        self.runs, self.folder = runs, runs / ".head"
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise Refused([f"--runs {runs}: {error.strerror}"]) from error
        self._lock = os.open(self.folder / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise Refused([f"another head has the runs in {runs}: choose other --runs"]) from None
        self._sockets = _short(self.folder / "ipc", str(runs))
        self._sockets.mkdir(mode=0o700, exist_ok=True)
        self._file = self.folder / "state.json"
        remove_drafts(self.folder)

    @property
    def socket(self) -> str:
        """The endpoint for run processes."""
        return f"ipc://{self._sockets}/head"

    def load(self) -> State:
        """What the last head knew.

        Raises:
            Refused: the state file is damaged.
        """
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=State)
        except FileNotFoundError:
            return State()
        except msgspec.DecodeError as error:
            raise Refused(
                [f"{self._file} is damaged ({error}): move it away; runs are not found again then"]
            ) from error

    def save(self, state: State) -> None:
        """Make it outlive this process and a power cut."""
        write_durably(self._file, msgspec.json.encode(state))

    def close(self) -> None:
        """Let another head have it; twice is fine."""
        if self._lock >= 0:
            shutil.rmtree(self._sockets, ignore_errors=True)
            os.close(self._lock)
            self._lock = -1


def _short(folder: Path, name: str) -> Path:
    if len(str(folder)) + len("/head") <= _LONGEST_SOCKET:
        return folder
    return shm_root() / f"artos-head.{hashlib.sha256(name.encode()).hexdigest()[:12]}"
