"""PPO on Pong by the ``artos`` command, with more actors at set updates: the cost of each update.

``python -m evaluation.elasticity.artos_adaptive --schedule 2:0,4:5,6:10 --count 15`` answers with
the measures of ``evaluation.elasticity.adaptive``, taken from the journal and the summary of the
run, and with

``first_update_s``: the first update's part of ``run_s``, start-up included;
``thaws``, ``restores``, ``in_memory``: the number of rounds before which an actor was thawed, was
restored, or had waited in memory (or had not waited, before its first round);
``parked_mb_s``: MB·s kept by actors that waited;
``held_device_s``: the seconds that the learner held the device which it leases for its updates.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from evaluation.baselines.timing import answer
from evaluation.core.one_run import summary_of, trained
from evaluation.elasticity.adaptive import Schedule, Update, line, parse, summary, write
from triggers.journal import read
from workers.host.cpus import host_slots

_SAMPLE, _LEARN = "actors.sample", "learner.update"
_THAWED, _RESTORED = ("thaw",), ("restore", "prewarm")

Entry = Mapping[str, Any]


@dataclass(frozen=True)
class Round:
    """A round of sampling and the update made from it.

    Four times, in seconds since the run began: ``asked``, rows were asked for; ``ready``, the last
    actor still being made was ready (``asked`` if there was none); ``sampled``, all rows had come;
    ``over``, the next round was asked for. ``acting`` has the seconds that each actor sampled.
    ``updating`` is the learner's whole update, ``gathering`` its part for collecting rows.
    """

    asked: float
    ready: float
    sampled: float
    over: float
    acting: tuple[float, ...]
    updating: float
    gathering: float

    @property
    def span(self) -> float:
        """Seconds from asking until all rows had come."""
        return self.sampled - self.asked


def rounds_of(journal: Sequence[Entry]) -> list[Round]:
    """The rounds of a run that alternates sampling and learning.

    Raises:
        ValueError: the journal is not of such a run.
    """
    asked, sampled = (
        [entry for entry in journal if entry.get("trigger") == target]
        for target in (_SAMPLE, _LEARN)
    )
    learned = [entry for entry in journal if entry.get("by") == "learner"]
    # The newest version may have been announced to actors although no budget was left.
    over = [*asked[1 : len(sampled)], *learned[-1:]]
    found = zip(asked, sampled, learned, over, strict=False)
    rounds = [_round(journal, *entries) for entries in found]
    if not len(rounds) == len(sampled) == len(learned):
        raise ValueError(f"{len(sampled)} updates began and {len(learned)} ended")
    return rounds


def _round(
    journal: Sequence[Entry], asked: Entry, sampled: Entry, learned: Entry, over: Entry
) -> Round:
    acted = [entry for entry in journal if entry.get("done") == asked["firing"]]
    actors = {entry["by"] for entry in acted}
    ready = [entry["t"] for entry in journal if entry.get("ready") in actors]
    return Round(
        asked["t"],
        max([asked["t"], *(t for t in ready if t < sampled["t"])]),
        sampled["t"],
        over["t"],
        tuple(entry.get("seconds", 0.0) for entry in acted),
        learned.get("seconds", 0.0),
        learned.get("times", {}).get("gather", 0.0),
    )


def updates_of(journal: Sequence[Entry], found: Entry, slots: int) -> list[Update]:
    """The cost of every update, from the journal and the summary of a run with ``slots`` slots.

    ``total`` goes from asking for a round until asking for the next. The first update begins with
    the run, so its ``start`` includes the whole wait for actors and learner. Later actors are made
    while others work: there ``start`` is the time until the last actor was ready, but at most what
    ``sample`` leaves of the round. ``sample`` is the seconds that actors sampled, in parallel on
    the slots; ``transfer`` and ``learn`` are the learner's seconds; ``wait`` is the rest. ``held``
    and ``used`` divide the run's totals by slot-seconds and by seconds of sampling; after the last
    update they equal the totals.
    """
    rounds = rounds_of(journal)
    held = _spread(
        found["usage"]["cpu_seconds_held"],
        [min(len(each.acting), slots) * each.span for each in rounds],
    )
    used = _spread(found["usage"]["cpu_seconds_used"], [sum(each.acting) for each in rounds])
    return [
        _update(number, each, slots, *usage)
        for number, (each, *usage) in enumerate(zip(rounds, held, used, strict=True))
    ]


def _update(number: int, seen: Round, slots: int, held: float, used: float) -> Update:
    before = seen.asked if number == 0 else 0.0
    actors = len(seen.acting)
    sample = min(sum(seen.acting) / min(actors, slots), seen.span)
    start = before + min(seen.ready - seen.asked, seen.span - sample)
    updating = min(seen.updating, seen.over - seen.sampled)
    transfer = min(seen.gathering, updating)
    total = before + seen.over - seen.asked
    wait = total - start - sample - updating
    return Update(
        number, actors, start, sample, transfer, wait, updating - transfer, total, held, used
    )


def _spread(total: float, weights: Sequence[float]) -> list[float]:
    """The cumulative share of ``total`` after each part, by weight."""
    return [total * part / sum(weights) for part in accumulate(weights)]


def more_measures(updates: Sequence[Update], found: Mapping[str, Any]) -> dict[str, float]:
    """Measures that only ARTOS reports."""
    thaws, restores = (
        sum(found["starts"].get(kind, {}).get("count", 0) for kind in kinds)
        for kinds in (_THAWED, _RESTORED)
    )
    rounds = sum(update.actors for update in updates)
    return {
        "first_update_s": updates[0].total,
        "thaws": thaws,
        "restores": restores,
        "in_memory": rounds - thaws - restores,
        "parked_mb_s": found["usage"]["parked_mb_seconds"],
        "held_device_s": found["usage"]["device_seconds_held"],
    }


# -- the run -----------------------------------------------------------------------------------


def command(options: argparse.Namespace) -> list[str]:
    """The arguments of ``artos`` for a run with these options."""
    schedule: Schedule = options.schedule
    rounds = sum(schedule.at(update) for update in range(options.count))
    settings = {name: getattr(options, name) for name in ("envs", "steps", "epochs", "minibatches")}
    pairs = [f"{name}={value}" for name, value in settings.items()] + options.set
    # A schedule that never changes is passed as a number, else the run would expect changes.
    changes = ",".join(f"{update}:{number}" for update, number in schedule.changes.items())
    actors = changes if len(schedule.changes) > 1 else str(schedule.most)
    return [
        "run", "ppo", "--env", "PongNoFrameskip-v4", "--actors", actors,
        "--total-steps", str(rounds * options.envs * options.steps), "--seed", str(options.seed),
        "--device", "pool",
        *(word for pair in pairs for word in ("--set", pair)),
    ]  # fmt: skip


def train(options: argparse.Namespace) -> tuple[list[Update], dict[str, Any]]:
    """Make the run; returns its updates and its summary.

    Raises:
        SystemExit: the run failed, or made another number of updates than ordered.
    """
    with trained(command(options)) as folder:
        found, journal = summary_of(folder), [*read(folder / "journal.jsonl")]
    updates = updates_of(journal, found, len(host_slots()))
    if len(updates) != options.count:
        raise SystemExit(f"{len(updates)} updates instead of {options.count}")
    return updates, found


def options_of(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line, with the options of ``evaluation.elasticity.ray_adaptive``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--schedule", type=parse, default="2:0,4:5", help="actors:update,...")
    parser.add_argument("--count", type=int, default=10, help="how many updates")
    parser.add_argument("--updates", type=Path, help="file for what every update cost, as JSON")
    parser.add_argument("--envs", type=int, default=4, help="environments an actor")
    parser.add_argument("--steps", type=int, default=128, help="steps a round")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--minibatches", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    return parser.parse_args(arguments)


def main() -> None:
    """Run once."""
    options = options_of()
    updates, found = train(options)
    for update in updates:
        print(line(update))
    if options.updates:
        write(updates, options.updates)
    answer(summary(updates) | more_measures(updates, found), ("torch", "numpy", "gymnasium"))


if __name__ == "__main__":
    main()
