"""The ends of the logs of other nodes, in the folder of the run once their executors have closed.

An executor that was killed sends none: a line in their place says so, and where they are to be had.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from pathlib import Path

from artos.protocol.steering import ExecutorLog

_log = logging.getLogger(__name__)
_MOST = 1 << 20  # bytes
_MISSING = "missing.log"
_NAME = re.compile(r"actor-(\d{1,9})|executor|agent|template")


class CollectedLogs:
    """Keeps what executors send, below ``folder``: ``NODE/actor-3.log``, ``NODE/executor.log``.

    Of ``actors`` actors there may be logs, so no node can fill the disk with them.
    """

    def __init__(self, folder: Path, actors: int) -> None:
        self._folder, self._actors = folder, actors
        self._owed: dict[str, None] = {}

    def expect(self, node: str) -> None:
        """An executor was opened there: it sends its logs when it closes."""
        self._owed[node] = None

    def keep(self, node: str, log: ExecutorLog) -> None:
        """Write one down, in the place of an older one; what is none, or too long, is not."""
        name = _NAME.fullmatch(log.name)
        if name is None or int(name[1] or 0) >= self._actors or len(log.content) > _MOST:
            _log.warning("node %s sent a log that is none: %s", node, log.name)
            return
        if node in self._owed:
            del self._owed[node]
            (self._folder / node / _MISSING).unlink(
                missing_ok=True
            )  # of an earlier part of the run
        self._write(node, f"{log.name}.log", log.content)

    def close(self, whys: Mapping[str, str]) -> None:
        """No more will come: note for each node whose logs did not, why they did not."""
        owed, self._owed = self._owed, {}
        for node in owed:
            why = whys.get(node, "its executor did not close in time")
            line = f"the logs of node {node} are missing here: {why}; `artos logs RUN --log "
            line += f"{node}/executor` (or {node}/actor-0, ...) asks the node for them"
            _log.warning("%s", line)
            self._write(node, _MISSING, f"{line}\n".encode())

    def _write(self, node: str, name: str, content: bytes) -> None:
        file = self._folder / node / name
        try:
            file.parent.mkdir(exist_ok=True)
            file.write_bytes(content)
        except OSError as error:
            _log.warning("%s cannot be written: %s", file, error.strerror)
