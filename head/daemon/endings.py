"""Which runs are to be told to finish and save, and which were. Told twice, a run ends at once."""

from __future__ import annotations

from artos.protocol.run_state import STOPPING
from head.daemon.run import Run


class Endings:
    """Runs by name; each new process (epoch) of a run is told again."""

    def __init__(self) -> None:
        self._asked: dict[str, Run] = {}
        self._told: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"<Endings asked={[*self._asked]} told={[*self._told]}>"

    def tell(self, run: Run) -> None:
        """Have a run told, even if it was told before."""
        self._asked[run.name] = run

    def was_told(self, run: Run) -> bool:
        """Whether the present process of a run was told, or is about to be."""
        return run.name in self._asked or self.has_told(run)

    def is_under_way(self, run: Run) -> bool:
        """Whether a run saves and ends already, or is about to, for whatever reason."""
        return run.state == STOPPING or self.was_told(run)

    def has_told(self, run: Run) -> bool:
        """Whether the present process of a run was told."""
        return self._told.get(run.name) == run.epoch

    def take_due(self) -> list[Run]:
        """The runs to be told now; from then on they count as told."""
        asked, self._asked = self._asked, {}
        self._told |= {run.name: run.epoch for run in asked.values()}
        return [*asked.values()]

    def take_back(self, name: str) -> None:
        """Do not tell a run that was to be told now."""
        self._asked.pop(name, None)

    def forget(self, name: str) -> None:
        """Forget a run whose process has ended."""
        self._asked.pop(name, None)
        self._told.pop(name, None)
