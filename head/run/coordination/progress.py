"""How far a run is: steps granted, made and learned from, and updates."""

from __future__ import annotations

from head.run.coordination.books import Claims, Rounds
from head.run.coordination.outline import Outline
from head.run.coordination.versions import Versions


class Progress:
    """A run's steps and updates, as its books have them.

    An update that is handed rows is certain to be made. One that draws rows may find none, so it
    counts once it is made.
    """

    def __init__(
        self, outline: Outline, base: int, rounds: Rounds, claims: Claims, first: Versions
    ) -> None:
        self._outline, self._rounds, self._claims, self._first = outline, rounds, claims, first
        self._base = base  # steps that earlier parts of a resumed run made

    @property
    def rows_before(self) -> int:
        """Rows of all actors together that earlier parts of the run made."""
        return self._base // self._outline.envs

    @property
    def granted(self) -> int:
        """Steps that actors made or may make."""
        return self._base + self._rounds.granted * self._outline.envs

    @property
    def made(self) -> int:
        """Steps committed by this part of the run."""
        return self._rounds.written * self._outline.envs

    @property
    def steps(self) -> int:
        """Steps committed."""
        return self._base + self.made

    @property
    def consumed(self) -> int:
        """Steps that the learner is done with; all steps if it claims no rows."""
        rows = self._claims.consumed() if self._outline.claims else self._rounds.written
        return self._base + rows * self._outline.envs

    @property
    def used(self) -> float:
        """The share of the run that is over, 0 to 1: of the steps learned from, or of updates."""
        steps, updates = self._outline.total_steps, self._outline.total_updates
        of_steps = self.consumed / steps if steps else 0.0
        return min(1.0, max(of_steps, self.begun() / updates if updates else 0.0))

    @property
    def updates(self) -> int:
        """Updates that the first learner has made, those of earlier parts of the run included."""
        return self._first.updates

    def begun(self, *, certain: bool = False) -> int:
        """Updates that it was handed, made or not; or those ``certain`` to be made."""
        return self._first.begun(certain=certain)
