"""A run whose workers an engine takes away again and again, beside one that keeps them."""

from __future__ import annotations

import random
import shutil
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from artos.errors import ArtosError, DeadlineExceeded
from deploy.client.head_client import HeadClient
from deploy.client.submit import Wanted, submit
from evaluation.core.runner import Answer
from evaluation.engines.starting import ACTORS, wait
from evaluation.engines.ways import NAME, RAY, SLURM, WORKERS, Places, Towards, Way
from evaluation.lab.raylets import RealRay
from evaluation.lab.slurm import Slurm

_PAUSE = 0.5
_AWAY = 12.0
"""Seconds that a node is away."""
_FIRST = 20
"""Updates before anything is counted."""
_ROWS, _MISSING, _ANEW = 1, 2, 3


class TooLittle(ArtosError):
    """A run made too few updates to tell anything. ``updates`` counts them."""

    def __init__(self, updates: int) -> None:
        self.updates = updates
        super().__init__(f"the run made {updates} updates only")


class Units(NamedTuple):
    """What an engine tells of workers, and how one is taken away."""

    held: Callable[[Collection[str]], int]
    """Workers that hold a node now, given the names of those that the head hears."""
    take: Callable[[random.Random], bool]
    """Take one away, if there is one; returns whether there was."""


def on_slurm(slurm: Slurm) -> Units:
    """A job of a higher partition takes the node of a worker."""
    worker, head = (f"--name=artos:{NAME}-slurm:{unit}" for unit in ("worker", "head"))

    def take(rng: random.Random) -> bool:
        away = {job["node"] for job in slurm.jobs(head)}
        nodes = {job["node"] for job in slurm.jobs(worker, "--states=RUNNING")}
        if there := sorted(nodes - away):
            wrapped = ("--exclusive", "--output=/dev/null", f"--wrap=sleep {_AWAY:g}")
            slurm.run("sbatch", "-p", "high", "-w", rng.choice(there), *wrapped)
        return bool(there)

    def held(heard: Collection[str]) -> int:
        return len(slurm.jobs(worker, "--states=RUNNING,COMPLETING"))

    return Units(held, take)


def on_ray(ray: RealRay) -> Units:
    """Somebody removes the placement group of a worker."""

    def there() -> dict[str, str]:
        """Groups of workers by the names of their nodes."""
        found = {n: n.rpartition(":")[2] for n, state in ray.groups().items() if state == "CREATED"}
        return {f"{NAME}-ray-{index}": n for n, index in found.items() if index.isdecimal()}

    def take(rng: random.Random) -> bool:
        groups = sorted(there().values())
        if groups:
            ray.drop(rng.choice(groups))
        return bool(groups)

    # A worker whose group is gone has its CPUs until it has left.
    return Units(lambda heard: len({*there(), *heard}), take)


def units_of(places: Places, engine: str) -> Units:
    """What that engine tells."""
    return {SLURM: on_slurm(places.slurm), RAY: on_ray(places.ray)}[engine]


def measure(
    way: Way, units: Units, folder: Path, seconds: float, events: int, runs: Iterator[int]
) -> Answer:
    """Run for so many seconds, in which workers are taken away at so many random moments.

    The next number of ``runs`` is the seed of the moments.

    Raises:
        DeadlineExceeded: something did not happen.
        LayerFailed: a command failed.
    """
    seed = next(runs)
    code, book = folder / "code", folder / f"book-{time.time_ns()}"
    code.mkdir(exist_ok=True)
    shutil.copy(Path(__file__).with_name("simulator.py"), code)
    wanted = Wanted("simulator.py:workload", {"actors": ACTORS, "book": str(book)}, folder=code)
    try:
        towards = way.up()
        with towards.client() as client:
            run = submit(client, wanted)["run"]
            wait("all workers", lambda: units.held(()) == WORKERS)
            wait("updates", lambda: len(_read(book)) > _FIRST)
            with counted(units, towards) as held:
                began = time.time()
                taken = _take(units, _moments(seconds, events, seed), seed)
                time.sleep(max(0.0, began + seconds - time.time()))
                ended = time.time()
            facts = client.status(run).progress
            client.stop(run)
            wait("the run's end", lambda: client.status(run).outcome)
    finally:
        way.down()
    lines = _read(book)
    lines = lines[(lines[:, 0] >= began) & (lines[:, 0] <= ended)]
    if len(lines) < _FIRST or not held[0]:
        raise TooLittle(len(lines))
    gaps = np.diff(lines[:, 0])
    rates = {
        "taken": float(taken),
        "missing_rows": float(lines[-1, _MISSING]),
        "anew": float(lines[-1, _ANEW] - lines[0, _ANEW]),
        "again_rows": float(facts.rows_lost if facts is not None else 0),
        "late_s": float(gaps.max() - np.median(gaps)),
        "update_s": float(np.median(gaps)),
        "steps_per_node_s": float(lines[-1, _ROWS] - lines[0, _ROWS]) / held[0],
    }
    return Answer(rates, {})


def _read(book: Path) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """A row for each update: time, rows, missing rows, environments that began anew."""
    with suppress(OSError):
        text = book.read_text()
        rows = [line.split() for line in text[: text.rfind("\n") + 1].splitlines()]
        return np.array(rows, np.float64).reshape(-1, 4)
    return np.zeros((0, 4))


def _moments(seconds: float, events: int, seed: int) -> list[float]:
    """Random moments, each in a stretch of its own, so that one event is over before the next."""
    rng, stretch = random.Random(seed), seconds / max(events, 1)
    return [stretch * number + rng.uniform(0.0, stretch / 3) for number in range(events)]


def _take(units: Units, moments: Sequence[float], seed: int) -> int:
    rng, began, taken = random.Random(seed + 1), time.monotonic(), 0
    for moment in moments:
        time.sleep(max(0.0, began + moment - time.monotonic()))
        taken += units.take(rng)
    return taken


@contextmanager
def counted(units: Units, towards: Towards) -> Iterator[list[float]]:
    """The node-seconds that workers have held, in a list of one; whole once the block has ended."""
    held, over, failed = [0.0], threading.Event(), list[Exception]()

    def count(client: HeadClient) -> None:
        last = time.monotonic()
        while not over.wait(_PAUSE):
            with suppress(DeadlineExceeded):  # a head that is busy
                heard = [node.name for node in client.cluster().nodes if node.alive]
                there, now = units.held(heard), time.monotonic()
                held[0] += there * (now - last)
                last = now

    def counted() -> None:
        try:
            with towards.client() as client:
                count(client)
        except Exception as error:  # raised again where it is waited for
            failed.append(error)

    counting = threading.Thread(target=counted, name="node-seconds")
    counting.start()
    try:
        yield held
    finally:
        over.set()
        counting.join()
    if failed:
        raise failed[0]
