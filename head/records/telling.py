"""Tells a tracker of a run: in the run itself, or in a process that reads what the run writes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from artos.protocol.views import Status
from artos.system.regular_file import lies_in
from head.records.episodes import Ended
from head.records.place import place
from head.records.progress_log import scalars
from head.records.told import counted, ended, since
from head.records.tracker import Tracker

Moment = tuple[int, int]
"""Environment steps and updates."""
_ARTIFACTS = ("config.json", "summary.json", "curve.png", "evaluations.csv", "episodes.csv")
_EVERY = 20
"""Rows from one histogram to the next."""


def moment(status: Status) -> Moment:
    """When a row was written."""
    return status.steps, status.updates


class Telling:
    """A run that ``tracker`` has the first ``rows`` of; histograms go up to the moment ``spread``.

    A histogram is of what came since the one before it.
    """

    def __init__(self, tracker: Tracker, rows: int = 0, spread: Moment = (0, 0)) -> None:
        self.rows, self.spread = rows, spread
        self.heard = -1
        """After how many steps the newest episode ended that it was told of."""
        self._told = spread[0]
        """Episodes up to so many steps were told of before."""
        self._tracker = tracker
        self._before, self._last = Status(), Status()
        self._episodes: list[Ended] = []

    def episodes(self, found: Sequence[Ended], *, anew: bool = False) -> None:
        """Tell of episodes, before the row that counts them; ``anew``: of all from the first on."""
        if anew:
            self._episodes.clear()
            self._told = self.spread[0]
        self._episodes += (each for each in found if each.steps > self._told)
        self.heard = found[-1].steps if found else self.heard

    def resumed(self, status: Status) -> None:
        """What this status counts was counted before the run was resumed."""
        self._before = self._last = status
        self.spread = moment(status)

    def has(self, status: Status) -> None:
        """Tell of a row that the tracker has already."""
        if moment(status) <= self.spread:
            self._before = status
        self._last = status

    def row(self, status: Status) -> None:
        """Tell of the next row."""
        self._tracker.on_progress(place(*moment(status)), scalars(status))
        self._last, self.rows = status, self.rows + 1
        if self.rows % _EVERY == 0:
            self._spread()

    def files(self, folder: Path) -> None:
        """The run in ``folder`` is over: tell of what is left, and of its own files."""
        if moment(self._last) > self.spread:
            self._spread()
        for name in _ARTIFACTS:
            if lies_in(path := folder / name, folder):
                self._tracker.on_artifact(path)

    def _spread(self) -> None:
        status, before = self._last, counted(self._before)
        found = {name: since(before.get(name, {}), now) for name, now in counted(status).items()}
        found |= ended(each for each in self._episodes if each.steps <= status.steps)
        for name, counts in found.items():
            if counts:
                self._tracker.on_histogram(place(*moment(status)), name, counts)
        self._episodes = [each for each in self._episodes if each.steps > status.steps]
        self._before, self.spread = status, moment(status)
