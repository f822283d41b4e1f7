"""TensorBoard: a run in a folder of events, which every run has of itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from artos.system.regular_file import contents
from head.records import event_file
from head.records.event_file import EventFile
from head.records.run_folder import RunFolder
from head.records.told import settings
from head.records.tracker import Classes, Tracked, Tracker, edges

_ELSEWHERE = ("versions.", "host.", "origin.")
"""Begins of names that would be columns of the table of hyper-parameters, but are none."""


class TensorBoard(Tracker):
    """A run in a ``folder``; what an earlier one has there from step ``resumed_at`` on is hidden.

    Hyper-parameters are those of the plugin of that name. It can show files that are pictures
    (PNG) or text (JSON).
    """

    def __init__(self, folder: Path, tracked: Tracked, resumed_at: int | None = None) -> None:
        self.id = folder.name
        self._events, self._step = EventFile(folder, resumed_at), resumed_at or 0
        given = tracked.settings.items()
        columns = {name: value for name, value in given if not name.startswith(_ELSEWHERE)}
        self._events.write(self._step, [event_file.session_start(columns, tracked.name)])

    @classmethod
    def of(cls, folder: RunFolder, resumed_at: int | None = None) -> TensorBoard:
        """What each run writes in its own folder."""
        name = folder.path.resolve().name
        return cls(folder.events, Tracked(name, "", settings(folder.config)), resumed_at)

    def on_progress(self, step: int, values: Mapping[str, float]) -> None:
        """Write a row."""
        self._step = step
        self._events.write(step, [event_file.scalar(*each) for each in values.items()])

    def on_histogram(self, step: int, name: str, counts: Classes) -> None:
        """Write a histogram."""
        value = event_file.histogram(name, edges(counts), [*counts.values()])
        self._events.write(step, [value])

    def on_artifact(self, path: Path) -> None:
        """Write a picture or a text."""
        name = f"files/{path.name}"
        if path.suffix == ".png":
            self._events.write(self._step, [event_file.image(name, contents(path))])
        elif path.suffix == ".json":
            words = contents(path).decode(errors="replace").replace("\n", "\n    ")
            self._events.write(self._step, [event_file.text(name, f"    {words}")])

    def close(self, outcome: str) -> None:
        """Write how it ended, and close the file. May be called twice."""
        if outcome:
            self._events.write(self._step, [event_file.session_end(failed=outcome == "failed")])
        self._events.close()
