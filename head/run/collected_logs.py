"""The ends of other nodes' logs, collected in the run's folder when their executors close.

A killed executor sends no logs. A line in their place says so, and how to ask the node for them.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from artos.protocol.steering import ExecutorLog

_log = logging.getLogger(__name__)
_MOST = 1 << 20  # bytes
_MISSING = "missing.log"
_NAME = re.compile(r"actor-(\d{1,9})|(.+)")


class CollectedLogs:
    """Keeps the logs of executors below ``folder``: ``NODE/actor-3.log``, ``NODE/executor.log``.

    Only logs of the run's ``actors`` actors and of its ``servers`` are kept, so no node can fill
    the disk.
    """

    def __init__(self, folder: Path, actors: int, servers: Iterable[str] = ()) -> None:
        self._folder, self._actors = folder, actors
        self._others = {"executor", "agent", "template", *servers}
        self._missing: dict[str, None] = {}

    def expect(self, node: str) -> None:
        """An executor was opened on a node; it will send its logs when it closes."""
        self._missing[node] = None

    def keep(self, node: str, log: ExecutorLog) -> None:
        """Write a log, replacing an older one; refuse one that is too long or has no known name."""
        name = _NAME.fullmatch(log.name)
        known = name and (name[2] in self._others if name[2] else int(name[1]) < self._actors)
        if not known or len(log.content) > _MOST:
            _log.warning("node %s sent an invalid log: %s", node, log.name)
            return
        if node in self._missing:
            del self._missing[node]
            # An earlier part of the run may have left it.
            (self._folder / node / _MISSING).unlink(missing_ok=True)
        self._write(node, f"{log.name}.log", log.content)

    def close(self, whys: Mapping[str, str]) -> None:
        """No more logs will come: note for each node that sent none why it did not."""
        missing, self._missing = self._missing, {}
        for node in missing:
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
