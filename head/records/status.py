"""The summary of a run: what its records and ``--json`` say of it once it is over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from artos.protocol.views import Status
from artos.usage import Usage
from head.records.evaluations import Evaluated


class Summary(msgspec.Struct, frozen=True):
    """The outcome of a run: its last ``status``, its ``usage``, and totals.

    ``lag_histogram`` counts rows learned from by lag; ``lag_by_actor`` has ``mean``, ``max``,
    ``rows`` and ``histogram`` of each actor, ``times_by_member`` has ``wall``, ``work``, ``wait``
    (seconds) and ``shares`` of each member. ``actors_by_update`` are ``(updates, actors)``: for so
    many updates in a row so many actors took part. ``progress`` is the last row of
    ``progress.csv``. ``wall_seconds`` go from the start of the command (on a cluster: of the run
    process) to its end, ``first_step_seconds`` to the first step of an environment (None: there
    was none). ``replay_ratio`` is how often a row was drawn on average, None if none was.
    ``why`` is the error that a run failed with, ``ended_by`` the setting that ended one that is
    done: ``total_steps`` or ``total_updates``. ``evaluation`` has an entry for each evaluation, in
    order of version; ``evaluations_skipped`` counts versions that came due while the evaluator was
    busy and were overtaken by another, ``evaluations_failed`` is why there are no more of them.
    ``device`` is where the learner computed, ``leases_lost`` counts updates during which it was
    taken from the learner, as others waited for it.
    """

    status: Status
    usage: Usage
    seed: int
    outcome: str = "done"
    not_restored: tuple[str, ...] = ()
    actors_by_update: tuple[tuple[int, int], ...] = ()
    lag_by_actor: dict[int, dict[str, Any]] = {}
    lag_histogram: dict[str, int] = {}
    times_by_member: dict[str, dict[str, Any]] = {}
    progress: dict[str, Any] = {}
    wall_seconds: float = 0.0
    first_step_seconds: float | None = None
    replay_ratio: float | None = None
    why: str = ""
    ended_by: str = ""
    evaluation: tuple[Evaluated, ...] = ()
    evaluations_skipped: int = 0
    evaluations_failed: str = ""
    device: str = "cpu"
    leases_lost: int = 0

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
        return f"{self.outcome} after {self.status.steps} steps: {folder}"


_FIRST = (
    "algorithm", "env", "seed", "steps", "updates", "seconds", "steps_per_second",
    "mean_return_100", "lag_mean", "lag_max", "restarts", "rows_lost", "outcome",
)  # fmt: skip
_TRANSIENT = ("fill", "waits", "metrics", "usage")
"""Fields of a status that mean nothing once the run is over, or that the summary has itself."""
