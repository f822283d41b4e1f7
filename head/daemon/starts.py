"""Run processes that have not registered yet, and those that should have by now. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from head.daemon.run import Run

_SECONDS = 3_600.0
"""For a run process to be up, beyond what user code may take.

It may wait half an hour for packages to be installed, and then read a large checkpoint.
"""


class Starts:
    """Since when the processes of runs are waited for.

    A restarted head counts anew, as it has not heard what was said meanwhile.
    """

    def __init__(self) -> None:
        self._since: dict[str, tuple[int, float]] = {}  # epoch and time, by run

    def __repr__(self) -> str:
        return f"<Starts {self._since}>"

    def see(self, changed: Iterable[Run], now: float) -> None:
        """Take in that these runs have changed."""
        for run in changed:
            if not run.active or run.up is not None:
                self._since.pop(run.name, None)
            elif self._since.get(run.name, (0, now))[0] != run.epoch:
                self._since[run.name] = run.epoch, now

    def count_anew(self, now: float) -> None:
        """Until now no process could be started or heard."""
        self._since = {name: (epoch, now) for name, (epoch, _) in self._since.items()}

    def take_overdue(self, runs: Mapping[str, Run], now: float) -> dict[str, str]:
        """Those of ``runs`` that have waited for too long, and why each has failed.

        One that is there for as long again is named again.
        """
        found = {}
        for name, (epoch, since) in self._since.items():
            seconds = _SECONDS + runs[name].deadline
            if now - since >= seconds:
                found[name] = (
                    f"its process had not registered after {seconds:,.0f} s and was killed: its "
                    f"log says how far it came (artos logs {name})"
                )
                self._since[name] = epoch, now
        return found
