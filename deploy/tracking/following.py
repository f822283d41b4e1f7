"""Sends a run to a tracker: what its folder has, and what comes while it goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from artos.protocol.views import Status
from artos.runs import run_config
from artos.runs.run_config import RunConfig
from artos.specs.fields import Count
from artos.system.durable import write_durably
from artos.system.regular_file import contents
from deploy.tracking.rows import NewRows
from deploy.tracking.told import lags, settings, waits
from deploy.tracking.tracker import Tracked, Tracker
from head.records import summary_file
from head.records.progress_log import scalars
from head.records.reading import reading
from head.records.run_lock import is_live

FOLDER = "tracked"
_ARTIFACTS = ("config.json", "summary.json", "curve.png", "evaluations.csv", "episodes.csv")
_WEIGHTS = ("best", "checkpoint")
_EVERY = 20
"""Rows from one histogram to the next."""
Open = Callable[[Tracked], Tracker]


class Sent(msgspec.Struct, frozen=True):
    """What a tracker has of a run. Rows up to that many ``steps`` and ``updates`` are there."""

    id: str = ""
    steps: Count = 0
    updates: Count = 0
    rows: Count = 0
    outcome: str = ""


class Following:
    """A run in a tracker, of which ``RUN/tracked/NAME.json`` says how far it is.

    So a run that is resumed goes on in the tracker, too, and one that is sent again costs nothing.

    Raises:
        Refused, CheckpointFault: the run's records are damaged.
    """

    def __init__(self, folder: Path, name: str, project: str, open_: Open) -> None:
        self._folder, self._state = folder, folder / FOLDER / f"{name}.json"
        plain, _ = run_config.read(folder, RunConfig)
        self.sent = self._known()
        tracked = Tracked(folder.resolve().name, project, settings(plain), self.sent.id)
        self._tracker = open_(tracked)
        self._rows = NewRows(folder / "progress.csv")
        self._last: Status | None = None
        self._keep(id=self._tracker.id)

    def forward(self) -> bool:
        """Send the rows that are new; returns whether there were any."""
        found = self._rows.read()
        for status in found:
            at = status.steps, status.updates
            if self.sent.rows and at <= (self.sent.steps, self.sent.updates):
                continue  # it was sent before the run was resumed
            self._tracker.on_progress(status.steps, scalars(status))
            rows = self.sent.rows + 1
            if rows % _EVERY == 1:
                self._histograms(status)
            self.sent = msgspec.structs.replace(
                self.sent, steps=status.steps, updates=status.updates, rows=rows
            )
        if found:
            self._last = found[-1]
            self._keep()
        return bool(found)

    def follow(self, wait: Callable[[], None]) -> None:
        """Send all there is, and what comes until the run is over."""
        while True:
            live = is_live(self._folder)
            while self.forward():
                pass
            if not live:
                return
            wait()

    def finish(self, *, weights: bool = False) -> None:
        """Send the files of a run that is over, with the ``weights`` if wanted, and close."""
        found = summary_file.read(self._folder)
        outcome = found[1].outcome if found else "failed"
        if is_live(self._folder):
            outcome = ""
        elif outcome != self.sent.outcome or weights:
            if self._last:
                self._histograms(self._last)
            files = [path for name in _ARTIFACTS if (path := self._folder / name).is_file()]
            of_each = (sorted((self._folder / name).glob("*.safetensors")) for name in _WEIGHTS)
            files += next(filter(None, of_each), []) if weights else []
            for path in files:
                self._tracker.on_artifact(path)
        self._tracker.close(outcome)
        self._keep(outcome=outcome)

    def _histograms(self, status: Status) -> None:
        if status.lags:
            self._tracker.on_histogram(status.steps, "lags", lags(status))
        for kind, counts in waits(status).items():
            self._tracker.on_histogram(status.steps, f"waited/{kind}", counts)

    def _known(self) -> Sent:
        with reading(self._state):
            try:
                return msgspec.json.decode(contents(self._state), type=Sent)
            except FileNotFoundError:
                return Sent()

    def _keep(self, **changes: str) -> None:
        self.sent = msgspec.structs.replace(self.sent, **changes)
        self._state.parent.mkdir(exist_ok=True)
        write_durably(self._state, msgspec.json.encode(self.sent))
