"""The summary of a run: what its records and ``--json`` say of it once it is over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from artos.protocol.usage import Usage
from artos.protocol.views import Status
from head.records.evaluations import Evaluated


class Summary(msgspec.Struct, frozen=True):
    """The outcome of a run."""

    status: Status
    """The last one."""
    usage: Usage
    seed: int
    outcome: str = "done"
    not_restored: tuple[str, ...] = ()
    """What a resumed run could not take up again."""
    actors_by_update: tuple[tuple[int, int], ...] = ()
    """``(updates, actors)``: for so many updates in a row, so many actors took part."""
    lag_by_actor: dict[int, dict[str, Any]] = {}
    """``mean``, ``max``, ``rows`` and ``histogram`` of the lag, by actor."""
    lag_histogram: dict[str, int] = {}
    """Rows learned from, by lag."""
    times_by_member: dict[str, dict[str, Any]] = {}
    """``wall``, ``work``, ``wait`` (seconds) and ``shares``, by member."""
    progress: dict[str, Any] = {}
    """The last row of ``progress.csv``."""
    wall_seconds: float = 0.0
    """From the start of the command (on a cluster: of the run process) to its end."""
    first_step_seconds: float | None = None
    """From that start to the first step of an environment; None if there was none."""
    replay_ratio: float | None = None
    """How often a row was drawn, on average; None if none was."""
    why: str = ""
    """The error that the run failed with."""
    ended_by: str = ""
    """The setting that ended a run that is done: ``total_steps`` or ``total_updates``."""
    evaluation: tuple[Evaluated, ...] = ()
    """All evaluations, in order of version."""
    best: Evaluated | None = None
    """The evaluation of the version in ``best/``: the highest mean return so far."""
    evaluations_skipped: int = 0
    """Versions that came due while the evaluator was busy, and were overtaken by a later one."""
    evaluations_failed: str = ""
    """Why there are no more evaluations."""
    device: str = "cpu"
    """Where the first learner computed."""
    devices: dict[str, dict[str, Any]] = {}
    """By learner the ``device``, the seconds for which it was ``held``, ``used`` and ``waited``
    for, and ``leases_lost``."""
    leases_lost: int = 0
    """Updates during which its device was taken from a learner, as others waited for it."""
    epoch: int = 0
    """On a cluster, which process of the run wrote it: the n-th that was begun."""

    def plain(self) -> dict[str, Any]:
        """The fields of ``summary.json``: all on one level but ``usage``, which is the bill.

        ``seconds`` is training time: from when all members were ready until the last answer.
        """
        own = msgspec.structs.asdict(self)
        status, usage = own.pop("status"), own.pop("usage")
        lasting = msgspec.structs.asdict(status)
        for name in _TRANSIENT:
            del lasting[name]
        of_actors = {"starts": usage.starts, "nodes": usage.nodes}
        every = lasting | of_actors | own | {"usage": usage.bill}
        return {name: every[name] for name in (*_FIRST, *every)}

    def last_line(self, folder: Path) -> str:
        """One line that says how the run in this folder ended."""
        played = ""
        if self.best and self.evaluation:
            last = self.evaluation[-1]
            played = (
                f", evaluated {last.mean_return:.4g} at version {last.version}, at best "
                f"{self.best.mean_return:.4g} at version {self.best.version}"
            )
        return f"{self.outcome} after {self.status.steps} steps{played}: {folder}"


_FIRST = (
    "algorithm", "env", "seed", "steps", "updates", "seconds", "steps_per_second",
    "mean_return_100", "lag_mean", "lag_max", "restarts", "rows_lost", "outcome",
)  # fmt: skip
_TRANSIENT = ("fill", "waits", "metrics", "usage", "lags")
"""Fields of a status that mean nothing once the run is over, or that the summary has itself."""
