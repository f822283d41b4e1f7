"""The journal: one JSON line per firing and per completion; trace, debugger and recovery log."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from artos.protocol.invocations import Ready
from artos.system.append_file import AppendFile
from artos.system.regular_file import opened
from triggers.events import Firing

_MOST_HELD, _MOST_KEPT = 1_000, 100_000
"""Most lines in memory before a write, and while writing fails."""


class Journal:
    """Appends to ``journal.jsonl``. After a crash at most the last line is cut off."""

    def __init__(self, path: Path, began: float = 0.0) -> None:
        self._file = AppendFile(path)
        self._began = began
        self._encode = msgspec.json.Encoder().encode
        self._lines: list[dict[str, Any]] = []

    def fired(self, now: float, firing: Firing) -> None:
        """Record a firing: time in seconds since the run began, id, trigger, rows, version."""
        line: dict[str, Any] = {
            "t": round(now - self._began, 6),
            "firing": firing.number,
            "trigger": firing.trigger,
            "version": firing.version,
        }
        if firing.claims:
            line["claims"] = firing.claims
        if firing.dropped:
            line["dropped"] = firing.dropped
        if firing.actors is not None:
            line["actors"] = firing.actors
        self.write(line)

    def take_back(self, firing: int) -> None:
        """Remove the firing recorded last: no member is invoked for it."""
        if self._lines and self._lines[-1].get("firing") == firing:
            self._lines.pop()

    def done(
        self, now: float, firing: int, member: str, *, seconds: float = 0.0,
        times: Mapping[str, float] = MappingProxyType({}), **facts: Any,
    ) -> None:  # fmt: skip
        """Record that a member finished the invocation of a firing.

        ``seconds`` is its duration, ``times`` its parts by kind, if they are known.
        """
        line = {"t": round(now - self._began, 6), "done": firing, "by": member, **facts}
        if seconds:
            line["seconds"] = round(seconds, 6)
        if times:
            line["times"] = {kind: round(value, 6) for kind, value in times.items()}
        self.write(line)

    def ready(self, now: float, member: str, ready: Ready, seconds: float | None) -> None:
        """Record that a member is set up, ``seconds`` after it was asked for.

        None: it was not asked for; it was started from scratch because its image was lost.
        """
        line: dict[str, Any] = {"t": round(now - self._began, 6), "ready": member}
        line["start"] = ready.start
        line |= dict(zip(("from", "to"), ready.moved, strict=False))
        line |= {"device": ready.device} if ready.device else {}
        self.write(line | ({"anew": True} if seconds is None else {"seconds": round(seconds, 6)}))

    def write(self, line: dict[str, Any]) -> None:
        """Append one line; it is encoded when flushed, so that no firing waits for that."""
        self._lines.append(line)
        if len(self._lines) % _MOST_HELD == 0:
            with suppress(OSError):  # the next flush reports it
                self.flush()
        del self._lines[:-_MOST_KEPT]

    def flush(self) -> None:
        """Hand the lines so far to the kernel.

        Raises:
            OSError: they cannot be written; they are kept for the next time.
        """
        if self._lines:
            self._file.append(b"".join(self._encode(line) + b"\n" for line in self._lines))
            self._lines.clear()

    def close(self) -> None:
        """Flush and close; twice is fine.

        Raises:
            OSError: the last lines cannot be written.
        """
        try:
            self.flush()
        finally:
            self._lines.clear()
            self._file.close()


def read(path: Path) -> list[dict[str, Any]]:
    """All whole lines of a journal; a last line cut off by a crash is left out."""
    with opened(path) as file:
        return [msgspec.json.decode(line) for line in file if line.endswith(b"\n") and line.strip()]
