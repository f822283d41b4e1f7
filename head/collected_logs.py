"""The ends of the logs of other nodes, in the folder of the run once their sites have closed."""

from __future__ import annotations

import logging
import re
from pathlib import Path

from artos.transport.wire import SiteLog

_log = logging.getLogger(__name__)
_MOST = 1 << 20  # bytes
_NAME = re.compile(r"actor-(\d{1,9})|site|agent|template")


class CollectedLogs:
    """Keeps what sites send, below ``folder``: ``NODE/actor-3.log``, ``NODE/site.log``.

    Of ``actors`` actors there may be logs, so no node can fill the disk with them.
    """

    def __init__(self, folder: Path, actors: int) -> None:
        self._folder, self._actors = folder, actors

    def keep(self, node: str, log: SiteLog) -> None:
        """Write one down, in the place of an older one; what is none, or too long, is not."""
        name = _NAME.fullmatch(log.name)
        if name is None or int(name[1] or 0) >= self._actors or len(log.content) > _MOST:
            _log.warning("node %s sent a log that is none: %s", node, log.name)
            return
        file = self._folder / node / f"{log.name}.log"
        try:
            file.parent.mkdir(exist_ok=True)
            file.write_bytes(log.content)
        except OSError as error:
            _log.warning("%s cannot be written: %s", file, error.strerror)
