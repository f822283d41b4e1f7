"""What a run says about itself: one record for the live view, the CSV, TensorBoard and --json."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from artos.usage import Usage


class Status(msgspec.Struct, frozen=True):
    """A snapshot of a run. Times in seconds, ``fill`` as shares of capacity per data key.

    ``lag_mean`` and ``lag_max`` are of the rows learned from, None where these are not known.
    ``shares`` are those of the wall time of the learner (``learner.learn``), or of the actors
    together (``actors.wait``).
    """

    algorithm: str
    env: str
    seconds: float
    steps: int
    total_steps: int
    updates: int
    version: int
    steps_per_second: float
    mean_return_100: float | None
    episodes: int
    lag_mean: float | None
    lag_max: int | None
    restarts: int
    rows_lost: int
    fill: dict[str, float] = {}
    waits: dict[str, str] = {}
    metrics: dict[str, float] = {}
    times: dict[str, float] = {}
    shares: dict[str, float] = {}


class Summary(msgspec.Struct, frozen=True):
    """The outcome of a run: its last ``status``, what its actors cost, and how it went in all.

    ``lag_histogram`` counts rows learned from by lag, and ``lag_by_actor`` has for each actor
    ``mean``, ``max``, ``rows`` and ``histogram`` of its own. ``times_by_member`` has of each
    ``wall``, ``work``, ``wait`` (seconds) and its own ``shares``. ``actors_by_update`` are
    ``(updates, actors)``: for so many updates in a row so many took part. ``progress`` is the last
    row of ``progress.csv``. ``wall_seconds`` go from the start of the command (on a cluster: of the
    run's process) to its end, ``first_step_seconds`` to the first step of an environment (None:
    there was none). ``why`` is the error that a run failed with.
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
    why: str = ""

    def plain(self) -> dict[str, Any]:
        """``summary.json``, all on one level. Fields are only ever added.

        ``seconds`` are those of training: from when all members were ready until the last answer.
        """
        own = msgspec.structs.asdict(self)
        status, usage = own.pop("status"), own.pop("usage")
        lasting = msgspec.structs.asdict(status)
        for passing in _PASSING:
            del lasting[passing]
        every = lasting | msgspec.structs.asdict(usage) | own
        return {name: every[name] for name in (*_FIRST, *every)}

    def last_line(self, folder: Path) -> str:
        """How the run in this folder ended, in a line."""
        return f"{self.outcome} after {self.status.steps} steps: {folder}"


_FIRST = (
    "algorithm", "env", "seed", "steps", "updates", "seconds", "steps_per_second",
    "mean_return_100", "lag_mean", "lag_max", "restarts", "rows_lost", "outcome",
)  # fmt: skip
_PASSING = ("fill", "waits", "metrics")
"""Of a status, what means nothing any more once the run is over."""
