"""Runs that are to be told to finish and save, and those that were. Told twice they end at once."""

from __future__ import annotations

from head.daemon.run import Run


class Endings:
    """Runs by name; each process of a run (epoch) is told anew."""

    def __init__(self) -> None:
        self._asked: dict[str, Run] = {}
        self._told: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"<Endings asked={[*self._asked]} told={[*self._told]}>"

    def tell(self, run: Run) -> None:
        """A run is to be told, also if it was told before."""
        self._asked[run.name] = run

    def told(self, run: Run) -> bool:
        """Whether the process of a run was told, or is about to be."""
        return run.name in self._asked or self._told.get(run.name) == run.epoch

    def take(self) -> list[Run]:
        """Those that are to be told now."""
        asked, self._asked = self._asked, {}
        self._told |= {run.name: run.epoch for run in asked.values()}
        return [*asked.values()]

    def forget(self, name: str) -> None:
        """The process of a run has ended, or it is not to be told after all."""
        self._asked.pop(name, None)
        self._told.pop(name, None)
