"""The state a worker node keeps between two lives of its daemon, and the lock of the daemon."""

from __future__ import annotations

import hashlib
import secrets
from pathlib import Path

from artos.errors import Refused
from artos.system import private_folder
from artos.system.closing import Closing
from artos.system.locks import FileLock


class WorkerState(Closing):
    """The folder of a node, by its name and head; one daemon on this machine holds it at a time."""

    def __init__(self, root: Path, name: str, head: str) -> None:
        self.folder = root / f"{name}-{hashlib.sha256(head.encode()).hexdigest()[:8]}"
        try:
            private_folder.keep(self.folder)
        except OSError as error:
            why = f"this worker's state cannot be written: {error}"
            raise Refused([f"{why}; set XDG_CACHE_HOME to a folder of yours"]) from error
        lock = FileLock.take(self.folder / "lock")
        if lock is None:
            why = f"a worker called {name} already runs on this machine"
            raise Refused([f"{why}: stop it, or give this one another --name"])
        self._lock = lock
        # The name of the last daemon, which is dead, as its lock could be taken.
        self.before = lock.read()
        self.peer = f"{name}/{secrets.token_hex(4)}"  # this daemon's name on the network
        lock.write(self.peer)

    def close(self) -> None:
        """Release the folder. May be called twice."""
        self._lock.close()
