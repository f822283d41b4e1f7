"""Run processes that have not registered yet: none is waited for without end. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from artos.protocol.run_state import STOPPING
from artos.runs.exit_status import ExitStatus
from artos.runs.run_config import DEADLINE
from head.daemon.effects import Kill
from head.daemon.run import Run
from head.daemon.runs import Runs

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

    def end_overdue(self, runs: Runs, now: float) -> Iterator[Kill]:
        """Kill those that have been waited for too long; one that is there as long again, again.

        A run that was up before begins once more, as after any death of its process.
        """
        for name, (epoch, since) in [*self._since.items()]:
            run = runs.by_name[name]
            seconds = _SECONDS + float(run.request.get("deadline", DEADLINE))
            if now - since < seconds:
                continue
            self._since[name] = epoch, now
            stopped = run.state == STOPPING
            if stopped or not run.begins_again:
                ended = ExitStatus.INTERRUPTED if stopped else ExitStatus.FAILED
                run.outcome = ended.outcome
            run.why = (
                f"its process had not registered after {seconds:,.0f} s and was killed: its log "
                f"says how far it came (artos logs {name})"
            )
            run.waits_for = "the end of its process, which was killed"
            runs.changed(run)
            yield Kill(run, run.why)
