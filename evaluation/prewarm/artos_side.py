"""PPO by the ``artos`` command, with actors that wait as images: what each update cost.

``python -m evaluation.prewarm.artos_side --set park=checkpoint --actors 0:2,20:1 --count 40``
answers, from the journal of the run, with

``update_s``, ``mean_s``: seconds from one version to the next, median and mean;
``learn_s``: the learner's part of that, median;
``in_time``: the share of invocations that waited less than 50 ms for their actor's process;
``late_s``: the 99th percentile of these waits;
``early_s``: seconds from the order to restore until the version, median.

Updates before ``--stable`` count for none of these.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from evaluation.baselines.timing import answer
from evaluation.core.one_run import trained
from triggers.journal import read

IN_TIME = 0.05
"""The paper counts invocations that wait for less than so many seconds."""


@dataclass(frozen=True)
class Update:
    """One update: seconds from version to version, and the learner's part.

    ``waits`` has the wait of each invocation of its round for the actor's process, ``restores`` how
    long these processes took to be restored; ``early`` is the time between the order to restore the
    actors and this round's invocations, None if there was no order.
    """

    seconds: float
    learning: float
    waits: tuple[float, ...]
    restores: tuple[float, ...]
    early: float | None


def updates_of(journal: Sequence[Mapping[str, Any]]) -> list[Update]:
    """The updates of a run that alternates sampling and learning, without the last one."""
    asked = [line for line in journal if line.get("trigger") == "actors.sample"]
    learned = [line["seconds"] for line in journal if line.get("by") == "learner"]
    orders = [line["t"] for line in journal if line.get("trigger") == "actors.prewarm"]
    found = []
    for number, (first, after) in enumerate(pairwise(asked)):
        rounds = [line for line in journal if line.get("done") == first["firing"]]
        before = [t for t in orders if t <= first["t"]]
        since = asked[number - 1]["t"] if number else 0.0
        found.append(
            Update(
                after["t"] - first["t"],
                learned[number],
                tuple(line.get("waited", 0.0) for line in rounds),
                tuple(line.get("restored", 0.0) for line in rounds),
                first["t"] - before[-1] if before and before[-1] > since else None,
            )
        )
    return found


def measures(updates: Sequence[Update]) -> dict[str, float]:
    """What the module answers with; see there."""
    waits = [wait for update in updates for wait in update.waits]
    early = [update.early for update in updates if update.early is not None]
    ordered = sorted(waits)
    found = {
        "update_s": statistics.median(update.seconds for update in updates),
        "mean_s": statistics.fmean(update.seconds for update in updates),
        "learn_s": statistics.median(update.learning for update in updates),
        "in_time": sum(wait < IN_TIME for wait in waits) / len(waits),
        "late_s": ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))],
    }
    return found | ({"early_s": statistics.median(early)} if early else {})


def series(updates: Sequence[Update]) -> dict[str, list[float]]:
    """What the figures show of each update; a time without an order is 0."""
    return {
        "seconds": [update.seconds for update in updates],
        "wait": [max(update.waits, default=0.0) for update in updates],
        "restore": [max(update.restores, default=0.0) for update in updates],
        "early": [update.early or 0.0 for update in updates],
        "actors": [float(len(update.waits)) for update in updates],
        "waits": [wait for update in updates for wait in update.waits],
    }


def train(options: argparse.Namespace) -> list[Update]:
    """Make the run.

    Raises:
        SystemExit: it failed.
    """
    settings = [f"{name}={getattr(options, name)}" for name in ("envs", "steps", "epochs")]
    command = [
        "run", "ppo", "--env", options.env, "--actors", options.actors,
        "--total-updates", str(options.count),
        *(word for pair in [*settings, *options.set] for word in ("--set", pair)),
    ]  # fmt: skip
    with trained(command) as folder:
        return updates_of([*read(folder / "journal.jsonl")])


def options_of(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env", default="PongNoFrameskip-v4")
    parser.add_argument("--actors", default="2", help="a number or a schedule, as for artos run")
    parser.add_argument("--count", type=int, default=40, help="how many updates")
    parser.add_argument("--stable", type=int, default=7, help="updates that are left out")
    parser.add_argument("--series", type=Path, help="file for what every update cost, as JSON")
    parser.add_argument("--envs", type=int, default=4, help="environments an actor")
    parser.add_argument("--steps", type=int, default=64, help="steps a round")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    return parser.parse_args(arguments)


def main() -> None:
    """Run once."""
    options = options_of()
    updates = train(options)
    if options.series:
        options.series.write_text(json.dumps(series(updates)))
    answer(measures(updates[options.stable :]), ("torch", "numpy", "gymnasium"))


if __name__ == "__main__":
    main()
