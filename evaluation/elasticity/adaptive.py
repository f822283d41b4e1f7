"""An adaptive run of any contestant: its schedule of actors, and the costs of its updates."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from pathlib import Path

KINDS = ("start", "sample", "transfer", "wait", "learn")


@dataclass(frozen=True)
class Schedule:
    """The number of actors by the update from whose round on it holds; update 0 is the first."""

    changes: dict[int, int]

    @property
    def most(self) -> int:
        """The largest number of actors."""
        return max(self.changes.values())

    def at(self, update: int) -> int:
        """The number of actors in the round of an update."""
        return self.changes[max(start for start in self.changes if start <= update)]


def parse(text: str) -> Schedule:
    """Parse ``2:0,4:5,6:10``: 2 actors from update 0 on, 4 from update 5 on, 6 from update 10 on.

    The order of ``artos run --actors``, ``0:2,5:4,10:6``, means the same: as update 0 must be named
    and 0 actors are not allowed, the side with the 0 has the updates.

    Raises:
        ValueError: the text is no schedule; the message says what to write.
    """
    try:
        pairs = [(int(a), int(b)) for a, b in (part.split(":") for part in text.split(","))]
    except ValueError:
        raise ValueError(f"{text!r} is no schedule: {_FORM}") from None
    if 0 not in (b for _, b in pairs):
        pairs = [(b, a) for a, b in pairs]
    changes = {update: number for number, update in pairs}
    if len(changes) < len(pairs):
        raise ValueError(f"{text!r} names an update twice")
    if 0 not in changes or min(changes) < 0 or min(changes.values()) < 1:
        raise ValueError(f"{text!r} must begin with update 0 and have 1 or more actors: {_FORM}")
    return Schedule(changes)


_FORM = "write actors:update, as in 2:0,4:5,6:10"


@dataclass(frozen=True)
class Update:
    """One update, in seconds of the learner's time; the kinds add up to ``total``.

    ``start``: creating actors until they are ready. ``sample``: acting, the mean of all actors.
    ``wait``: the rest of the time from asking for rounds until the last round has come (calls on
    their way, loading weights, storing rounds, the slowest actor). ``transfer``: handing weights
    over, fetching rounds and joining them to a batch. ``learn``: all epochs. ``held`` and ``used``
    are CPU-seconds of the actors from the start of the run to the end of the update: reserved (busy
    or not, since each was asked for; no more than there are cores) and really used.
    """

    update: int
    actors: int
    start: float
    sample: float
    transfer: float
    wait: float
    learn: float
    total: float
    held: float
    used: float


def step_ups(updates: Sequence[Update]) -> list[float]:
    """For each update with more actors than the one before: its seconds over its neighbours' mean.

    The neighbours are the later updates until the number changes again: the work grows with the
    number of actors, so the update before cannot be compared. A step up without neighbours is left
    out.
    """
    found = []
    for before, here in pairwise(updates):
        alike = [u.total for u in _same_number(updates, here) if u is not here]
        if here.actors > before.actors and alike:
            found.append(here.total / statistics.mean(alike))
    return found


def _same_number(updates: Sequence[Update], first: Update) -> list[Update]:
    later = [u for u in updates if u.update >= first.update]
    end = next((i for i, u in enumerate(later) if u.actors != first.actors), len(later))
    return later[:end]


def summary(updates: Sequence[Update]) -> dict[str, float]:
    """The measures of a run.

    ``run_s``: all updates together; ``update_s``: the median; ``mean_s``: the mean, without the
    start of the first; ``step_up`` and ``step_up_worst``:
    median and largest of ``step_ups`` (only if there are any); ``held_cpu_s``, ``used_cpu_s``;
    ``seconds.KIND``: the sum over all updates.
    """
    last = updates[-1]
    measures = {
        "run_s": sum(u.total for u in updates),
        "update_s": statistics.median(u.total for u in updates),
        "mean_s": (sum(u.total for u in updates) - updates[0].start) / len(updates),
        "held_cpu_s": last.held,
        "used_cpu_s": last.used,
    }
    if ratios := step_ups(updates):
        measures |= {"step_up": statistics.median(ratios), "step_up_worst": max(ratios)}
    return measures | {f"seconds.{kind}": sum(getattr(u, kind) for u in updates) for kind in KINDS}


def line(update: Update) -> str:
    """An update as one JSON line, rounded to a tenth of a millisecond."""
    return json.dumps({name: round(value, 4) for name, value in asdict(update).items()})


def write(updates: Sequence[Update], path: Path) -> None:
    """Write all updates as a JSON list, making the folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([asdict(update) for update in updates], indent=1) + "\n")


def read(path: Path) -> list[Update]:
    """Read the updates back."""
    names = {field.name for field in fields(Update)}
    rows = json.loads(path.read_text())
    return [Update(**{name: row[name] for name in names}) for row in rows]
