"""What a run says about itself: one record for the live view, the CSV, TensorBoard and --json."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec


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
    """``summary.json``: the outcome of a run. Fields are only ever added.

    ``seconds`` are those of training: from when all members were ready until the last answer.
    ``wall_seconds`` go from the start of the command (on a cluster: of the run's process) to its
    end, ``first_step_seconds`` to the first step of an environment (None: there was none).
    ``lag_mean`` and ``lag_max`` are of the rows learned from, None where these are not known;
    ``lag_histogram`` counts these rows by lag, and ``lag_by_actor`` has for each actor ``mean``,
    ``max``, ``rows`` and ``histogram`` of its own. ``times`` are seconds by kind, added up over
    members, ``shares`` what part of the members' wall time that is (as in ``Status``);
    ``times_by_member`` has of each ``wall``, ``work``, ``wait`` (seconds) and its own ``shares``.
    ``actors_by_update`` are ``(updates, actors)``: for so many updates in a row so many took part.
    ``progress`` is the last row of ``progress.csv``. ``why`` is the error that a run failed with.
    """

    algorithm: str
    env: str
    seed: int
    steps: int
    updates: int
    seconds: float
    steps_per_second: float
    mean_return_100: float | None
    lag_mean: float | None
    lag_max: int | None
    restarts: int
    rows_lost: int
    outcome: str = "done"
    times: dict[str, float] = {}
    not_restored: tuple[str, ...] = ()
    starts: dict[str, dict[str, float]] = {}
    held_cpu_seconds: float = 0.0
    used_cpu_seconds: float = 0.0
    parked_mb_seconds: float = 0.0
    actors_by_update: tuple[tuple[int, int], ...] = ()
    bytes_on_wire: int = 0
    nodes: tuple[str, ...] = ()
    lag_by_actor: dict[int, dict[str, Any]] = {}
    lag_histogram: dict[str, int] = {}
    shares: dict[str, float] = {}
    times_by_member: dict[str, dict[str, Any]] = {}
    progress: dict[str, Any] = {}
    wall_seconds: float = 0.0
    first_step_seconds: float | None = None
    why: str = ""

    def last_line(self, folder: Path) -> str:
        """How the run in this folder ended, in a line."""
        return f"{self.outcome} after {self.steps} steps: {folder}"
