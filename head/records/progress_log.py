"""The run's progress over time: a CSV (always rectangular), episodes, evaluations."""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from artos.protocol.views import Status
from artos.system.append_file import AppendFile
from artos.system.closing import Closing
from artos.system.durable import replacing, write_durably
from artos.system.regular_file import contents, opened
from head.records import evaluations
from head.records.episodes import AGENT, HEADER, Ended, Episodes
from head.records.evaluations import COLUMNS, Evaluated, lines
from head.records.reading import reading
from head.records.run_folder import RunFolder

Row = dict[str, str]

_GROUPS = (
    "fill", "waits", "metrics", "times", "shares", "evaluation", "usage", "skipped", "settings",
    "learners", "returns", "lags", "waited",
)  # fmt: skip
_COUNTED = ("lags/", "waited/")
"""Columns that are a distribution together."""
_MOST_OF_A_ROW = 1 << 20  # bytes; ``waits`` has a column for each actor
_PIECE = 4 << 20
"""Bytes of a ``progress.csv`` that are copied at once, as the run waits meanwhile."""
FIXED = tuple(name for name in Status.__struct_fields__ if name not in _GROUPS)
"""Columns of every ``progress.csv``; columns of the dictionaries follow as ``group/name``."""
_ALWAYS = FIXED[: FIXED.index("rows_stale")]
"""Those that a file of every version has."""


class ProgressLog(Closing):
    """Appends to ``progress.csv`` and ``episodes.csv`` of a run.

    If a column appears later (a metric of the first update), the file is replaced in one step by
    one with the new header and empty cells in earlier rows; columns are never removed or moved. Of
    a file of days each ``write`` copies a piece, and until it is copied rows have the columns that
    there were before. Each call ends with whole lines on disk. ``resumed_at`` is the step of the
    checkpoint that the run continues from, ``version`` and ``updates`` its version and updates:
    later rows are dropped, as they are made again.
    Episodes of a game say of which of its ``agents`` they were.
    ``evaluations.csv`` exists once there is an evaluation.
    """

    def __init__(
        self, folder: RunFolder, resumed_at: int | None = None, version: int = 0,
        updates: float = math.inf, *, agents: bool = False,
    ) -> None:  # fmt: skip
        self._progress, self._episodes = folder.progress, folder.episodes
        self._evaluations = folder.evaluations
        limit = math.inf if resumed_at is None else resumed_at
        _rewind(folder.evaluations, version=version)
        _rewind(folder.episodes, step=limit)
        _rewind(folder.progress, steps=limit, updates=updates)
        self._columns = _read_header(folder.progress)
        if not self._columns:
            self._columns = list(FIXED)
            write_durably(folder.progress, _lines([self._columns]))
        if not folder.episodes.exists():
            write_durably(folder.episodes, f"{HEADER}{AGENT * agents}\n".encode())
        self._of_agents = "agent" in _read_header(folder.episodes)
        self._rows_out = AppendFile(folder.progress)
        self._wider: tuple[list[str], Iterator[bool]] | None = None
        self._episodes_out = AppendFile(folder.episodes)

    def write(self, status: Status, *, last: bool = False) -> None:
        """Append one snapshot to the CSV; the ``last`` one with all columns, in however long."""
        row = flatten(status)
        while new := [name for name in row if name not in self._columns]:
            columns, pieces = self._wider or (
                [*self._columns, *new],
                _widened(self._progress, self._columns, new),
            )
            self._wider = None  # if it fails, it is begun again
            if next(pieces, True):
                self._columns = columns
                self._rows_out.close()
                self._rows_out = AppendFile(self._progress)
                continue
            self._wider = columns, pieces
            if not last:
                break
        self._rows_out.append(_line([_cell(row.get(name)) for name in self._columns]).encode())

    def episodes(self, ended: Iterable[Ended | tuple[int, float, int]]) -> None:
        """Append episodes."""
        lines = (
            f"{at},{value!r},{size}" + f",{agent}" * self._of_agents
            for at, value, size, agent in (Ended(*each) for each in ended)
        )
        self._episodes_out.append("".join(f"{line}\n" for line in lines).encode())

    def evaluated(self, found: Sequence[Evaluated]) -> None:
        """Append evaluations."""
        if found:
            with AppendFile(self._evaluations) as file:
                # It is there without a line if the disk was full when it was made.
                is_new = not self._evaluations.stat().st_size
                header = f"{','.join(COLUMNS)}\n".encode() if is_new else b""
                file.append(header + lines(found))

    def past_evaluations(self) -> list[Evaluated]:
        """Every evaluation so far."""
        return evaluations.read(self._evaluations)

    def past_episodes(self) -> Episodes:
        """Every episode so far."""
        return Episodes.read(self._episodes)

    def close(self) -> None:
        """Close the files. May be called twice."""
        self._wider = None
        self._rows_out.close()
        self._episodes_out.close()

    def __repr__(self) -> str:
        return f"<ProgressLog {self._progress} columns={len(self._columns)}>"


def flatten(status: Status) -> dict[str, Any]:
    """A status as one flat row: fixed columns, then ``group/name`` for the dictionaries."""
    row = {name: getattr(status, name) for name in FIXED}
    for group in _GROUPS:
        row |= {f"{group}/{_clean(name)}": value for name, value in getattr(status, group).items()}
    return row


def scalars(status: Status) -> dict[str, float]:
    """The finite numbers of a status by name; fixed columns have the prefix ``run/``.

    Counts that are a distribution together are left out.
    """
    tags = {
        name if "/" in name else f"run/{name}": float(value)
        for name, value in flatten(status).items()
        if isinstance(value, int | float) and not name.startswith(_COUNTED)
    }
    return {tag: value for tag, value in tags.items() if math.isfinite(value)}


def read_history(path: Path) -> list[Row]:
    """The rows of a ``progress.csv``, without a last row that was cut short by a kill."""
    text = _whole_lines(path)
    return list(csv.DictReader(io.StringIO(text)))


def last_status(path: Path) -> Status | None:
    """The newest status in a ``progress.csv``, also of a live run; None if there is no status.

    Raises:
        DamagedRecord: its last row is damaged, or it cannot be read.
    """
    if not path.exists():
        return None
    with reading(path):
        with opened(path) as file:
            header = file.readline()
            begin = file.tell()
            file.seek(max(begin, file.seek(0, io.SEEK_END) - _MOST_OF_A_ROW))
            lines = file.read()
        lines = lines[: lines.rfind(b"\n") + 1].rstrip(b"\n").rpartition(b"\n")[2]
        text = (header + lines).decode()
        return next(map(status_of, csv.DictReader(io.StringIO(text), restkey="")), None)


def status_of(row: Row) -> Status:
    """The inverse of ``flatten``, of a row with cells as text."""
    there = (name for name in FIXED if name in row or name in _ALWAYS)
    # An actor of a user's own may have no environment; no other text is ever empty.
    fields: dict[str, Any] = {name: row[name] or ("" if name == "env" else None) for name in there}
    for group in _GROUPS:
        head = f"{group}/"
        fields[group] = {
            name.removeprefix(head): cell
            for name, cell in row.items()
            if name.startswith(head) and cell
        }
    return msgspec.convert(fields, Status, strict=False)


def _read_header(path: Path) -> list[str]:
    if not path.exists():
        return []
    return next(csv.reader(io.StringIO(_whole_lines(path))), [])


def _whole_lines(path: Path) -> str:
    with reading(path):
        text = contents(path)
        return text[: text.rfind(b"\n") + 1].decode()


def _rewind(path: Path, **most: float) -> None:
    """Drop rows that are beyond one of these columns, and one that was cut short by a kill."""
    if not path.exists():
        return
    if not _whole_lines(path).strip():  # a full disk or a kill left no more of it than its name
        path.unlink()
        return
    with reading(path):
        header, rows = _read_header(path), read_history(path)
        there = (row for row in rows if all(float(row[name]) <= most[name] for name in most))
        kept = [[row[name] for name in header] for row in there]
    write_durably(path, _lines([header, *kept]))


def _widened(path: Path, columns: Sequence[str], new: Sequence[str]) -> Iterator[bool]:
    """Replace a CSV by one with ``new`` columns, too: False after each piece but the last.

    Lines that are appended meanwhile are in it. No cell has a line break, so a row is a line.
    """
    cells = b"," * len(new) + b"\n"
    with opened(path) as before, replacing(path) as file:
        file.write(_line([*columns, *new]).encode())
        before.readline()
        while len(piece := before.read(_PIECE)) == _PIECE:
            file.write(piece.replace(b"\n", cells))
            file.flush()
            os.fsync(file.fileno())
            yield False
        file.write(piece.replace(b"\n", cells))


def _line(cells: Sequence[str]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(cells)
    return out.getvalue()


def _lines(rows: Sequence[Sequence[str]]) -> bytes:
    return "".join(_line(row) for row in rows).encode()


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else _clean(str(value))


def _clean(text: str) -> str:
    return " ".join(text.split())
