"""Attack live processes of every kind: ``python -m evaluation.fuzz --cases 1000000 --seed 1``.

No process may die, change its state, or grow in memory. Prints a line for each process; the exit
status is 1 if one of this happened, and the same seed repeats it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

from artos.protocol import codec, control
from artos.protocol.invocations import Failed
from artos.system.archives import name_of
from evaluation.fuzz.hostile import Hostile
from evaluation.fuzz.targets import ExecutorPlace, Place, RunPlace, Target, head, plain, worker

_BATCH = 500
_ARCHIVES = 0.05
"""Share of code archives among the messages to the head."""
_WARM = 0.2
"""Share of the cases after which memory is measured for the first time."""
_REACHING = 0.3
_GROWTH = 48 << 20  # bytes; some growth is allowed, as allocators keep freed memory


def attack(target: Target, cases: int, hostile: Hostile) -> list[str]:
    """Send ``cases`` messages; returns descriptions of the faults found."""
    (before, refused), first, grown = target.state(), 0, 0
    for done in range(0, cases, _BATCH):
        for _ in range(min(_BATCH, cases - done)):
            _send(target, hostile)
        target.settle()
        if not _lives(target.process):
            return [f"{target.name} died after {done + _BATCH} cases"]
        size = target.process.memory_info().rss
        if not first and done >= cases * _WARM:
            first = size
        grown = size - first if first else 0
    faults = []
    after, refusals = target.state()
    if plain(after) != plain(before):
        faults.append(f"{target.name} changed from {plain(before)} to {plain(after)}")
    if refusals - refused < cases * _REACHING:
        faults.append(f"{target.name} refused {refusals - refused} of {cases}: did they arrive?")
    if grown > _GROWTH:
        faults.append(f"{target.name} grew by {grown / 1e6:.0f} MB")
    return faults


def _send(target: Target, hostile: Hostile) -> None:
    if target.name == "head" and hostile.random.random() < _ARCHIVES:
        content = hostile.archive()
        target.say(codec.encode(control.Archive(name_of(content), content)))
    elif target.throw is not None and hostile.random.random() < 0.2:
        target.throw(hostile.frame())
    else:
        target.say(hostile.body(target.kinds))


def _lives(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def _targets(place: Place) -> Iterator[Callable[[], Target]]:
    yield lambda: head(place)
    yield lambda: worker(place)
    runs = RunPlace(place)
    yield runs.run
    yield runs.commanded
    yield runs.node
    yield runs.replay
    executors = ExecutorPlace(place, runs.up)
    yield executors.executor
    yield executors.agent


KINDS = 8


def fuzz(cases: int, seed: int, say: Callable[[str], None]) -> list[str]:
    """Attack a process of each kind, with ``cases`` messages in all; returns all faults."""
    faults = []
    with tempfile.TemporaryDirectory(prefix="artos-fuzz.") as folder, Place(Path(folder)) as place:
        for number, made in enumerate(_targets(place)):
            target, began = made(), time.monotonic()
            found = attack(target, cases // KINDS, Hostile(seed * KINDS + number, (Failed,)))
            rate = cases / KINDS / (time.monotonic() - began)
            mb = target.process.memory_info().rss / 1e6 if _lives(target.process) else 0.0
            say(f"{target.name}: {cases // KINDS:,} cases, {rate:,.0f}/s, {mb:.0f} MB")
            faults += found
        logs = Path(folder).rglob("*.log") if faults else ()
        faults += [f"--- {log}\n{log.read_text(errors='replace')[-4000:]}" for log in logs]
    return faults


def main() -> None:
    """Attack, and print the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    faults = fuzz(options.cases, options.seed, lambda text: print(text, flush=True))
    print("\n".join(faults) or f"seed {options.seed}: nothing died, changed or grew")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
