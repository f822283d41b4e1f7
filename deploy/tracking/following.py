"""Sends a run to a tracker: what its folder has, and what comes while it goes on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from artos.errors import Refused
from artos.protocol.views import Status
from artos.runs import run_config
from artos.runs.run_config import RunConfig
from artos.specs.fields import MOST, Count, Version
from artos.system.closing import Closing
from artos.system.durable import write_durably
from artos.system.locks import FileLock
from artos.system.regular_file import contents, lies_in
from deploy.client.copied import goes_on
from deploy.tracking.rows import NewRows
from head.records import summary_file
from head.records.episodes import ended_of
from head.records.progress_log import Row, status_of
from head.records.reading import reading
from head.records.telling import Telling, moment
from head.records.told import settings
from head.records.tracker import Tracked, Tracker

FOLDER = "tracked"
_WEIGHTS = ("best", "checkpoint")
Open = Callable[[Tracked], Tracker]
_ONE_NAME = r"\A(?!\.{0,2}\Z)[^/\x00-\x1f]{1,255}\Z|\A\Z"
"""Of a folder, or in an address: the file may be a stranger's, and the tracker has other runs."""


class Sent(msgspec.Struct, frozen=True):
    """What a tracker has of a run. Rows up to that many ``steps`` and ``updates`` are there.

    Of the rows that were written then, those are there whose newest evaluation is of the version
    ``evaluated``: the last one comes when training is over. Histograms go up to the steps and
    updates ``spread``. ``place`` is where that tracker keeps its runs. In records of earlier
    versions it is "", and ``evaluated`` is that of every row that was written then.
    """

    id: Annotated[str, Meta(pattern=_ONE_NAME)] = ""
    project: str = ""
    place: str = ""
    steps: Count = 0
    updates: Count = 0
    rows: Count = 0
    outcome: str = ""
    spread: tuple[Count, Count] = (0, 0)
    evaluated: Version = MOST


_NOTHING = Sent(evaluated=-1)


class Following(Closing):
    """A run in a tracker, of which ``RUN/tracked/NAME.json`` says how far it is.

    So a run that is resumed goes on in the tracker, too, and one that is sent again costs nothing.
    In another project or ``place`` it begins anew. One process at a time sends it to that tracker.

    Raises:
        Refused, CheckpointFault: the run's records are damaged, or another process has not sent
            all within ``patience`` seconds.
    """

    def __init__(
        self, folder: Path, name: str, project: str, place: str, open_: Open,
        patience: float,
    ) -> None:  # fmt: skip
        self._folder, self._state = folder, folder / FOLDER / f"{name}.json"
        plain, _ = run_config.read(folder, RunConfig)
        self._state.parent.mkdir(exist_ok=True)
        lock = FileLock.take(self._state.with_suffix(".lock"), seconds=patience)
        if lock is None:
            raise Refused(
                [f"another process sends {folder} to {name}: wait until it has ended, or end it"]
            )
        with ExitStack() as on_error:
            self._lock = on_error.enter_context(lock)
            with reading(self._state):
                try:
                    known = msgspec.json.decode(contents(self._state), type=Sent)
                except FileNotFoundError:
                    known = _NOTHING
            here = known.place in ("", place) and known.project in ("", project)
            self.sent = known if here else _NOTHING
            tracked = Tracked(folder.resolve().name, project, settings(plain), self.sent.id)
            self._tracker = open_(tracked)
            self._telling = Telling(self._tracker, self.sent.rows, self.sent.spread)
            self._rows = NewRows(folder / "progress.csv", _placed)
            self._episodes = NewRows(folder / "episodes.csv", ended_of)
            self._keep(id=self._tracker.id, project=project, place=place)
            on_error.pop_all()

    def forward(self) -> bool:
        """Send the rows that are new; returns whether there were any."""
        found, told = self._rows.read(), self._telling
        for status, at in found:
            sent = self.sent
            if sent.rows and at <= (sent.steps, sent.updates, sent.evaluated):
                told.has(status)  # it was sent before a resume, or by an earlier process
                continue
            while told.heard <= status.steps and (more := self._episodes.read()):
                told.episodes(more, anew=self._episodes.anew)
            told.row(status)
            self.sent = msgspec.structs.replace(
                sent, steps=at[0], updates=at[1], evaluated=at[2], rows=told.rows,
                spread=told.spread, outcome="",
            )  # fmt: skip
        if found:
            self._keep()
        return bool(found)

    def follow(self, wait: Callable[[], None]) -> None:
        """Send all there is, and what comes until the run is over."""
        while True:
            live = goes_on(self._folder)
            while self.forward():
                pass
            if not live:
                return
            wait()

    def finish(self, *, weights: bool = False) -> None:
        """Send the files of a run that is over, with the ``weights`` if wanted, and close."""
        with self:
            found = summary_file.read(self._folder)
            outcome = found[1].outcome if found else "failed"
            if goes_on(self._folder):
                outcome = ""
            elif outcome != self.sent.outcome or weights:
                self._telling.files(self._folder)
                of_each = (sorted((self._folder / name).glob("*.safetensors")) for name in _WEIGHTS)
                for path in next(filter(None, of_each), []) if weights else []:
                    if lies_in(path, self._folder):
                        self._tracker.on_artifact(path)
            self._tracker.close(outcome)
            self.sent = msgspec.structs.replace(self.sent, spread=self._telling.spread)
            self._keep(outcome=outcome)

    def close(self) -> None:
        """Let others send it. May be called twice."""
        self._lock.close()

    def _keep(self, **changes: str) -> None:
        self.sent = msgspec.structs.replace(self.sent, **changes)
        write_durably(self._state, msgspec.json.encode(self.sent))


def _placed(row: Row) -> tuple[Status, tuple[int, int, int]]:
    """A row, and when it was written: rows are in this order. See ``Sent``."""
    status = status_of(row)
    evaluated = msgspec.convert(status.evaluation.get("version", -1), Version, strict=False)
    return status, (*moment(status), evaluated)
