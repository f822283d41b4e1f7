"""Names of the pipelining benchmark's cases, used by contestants, goals and figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from evaluation.core.report import OURS

RAY, REDIS, SOCKETS, ZEROMQ = "Ray", "Redis", "raw sockets", "plain ZeroMQ"
RAY_HERE = f"{RAY}, same machine"
NOTHING = f"{OURS}-"
"""ARTOS with every feature off; this is the paper's name for it."""
BARE, PLAIN = f"{OURS}-, not encrypted", f"{OURS}, not encrypted"
NO_PIPELINE = f"{OURS}, no pipeline"

UNTHROTTLED, FASTEST, SLOWEST = "unthrottled", "10 Gbit/s", "1 Gbit/s"
SPEEDS: Mapping[str, float | None] = {
    UNTHROTTLED: None,
    FASTEST: 10_000.0,
    "2.5 Gbit/s": 2_500.0,
    SLOWEST: 1_000.0,
}
"""Links by name, in Mbit/s."""

VARIANTS: Mapping[str, tuple[str, ...]] = {
    OURS: (),
    f"{OURS}, one stage": ("dual-stage",),
    f"{OURS}, no mini-batches": ("mini-batch",),
    f"{OURS}, not compressed": ("compression",),
    f"{OURS}, whole stacks": ("once",),
    NO_PIPELINE: ("dual-stage", "mini-batch"),
    NOTHING: ("dual-stage", "mini-batch", "compression", "once"),
}
"""Variants of ARTOS, and the features that are off in each."""
ALL_OFF = VARIANTS[NOTHING]

TRANSFER = "transfer seen by the learner"
WAIT = "time the learner waits"
ITERATION = "iteration"
WIRE = "bytes on the wire"
CPU = "CPU-seconds moving data"
SAMPLE = "sampling"
MEASURES: Mapping[str, tuple[str, str]] = {
    "transfer_s": (TRANSFER, "s"),
    "wait_s": (WAIT, "s"),
    "iteration_s": (ITERATION, "s"),
    "wire_mb": (WIRE, "MB"),
    "moving_cpu_s": (CPU, "s"),
}
"""Name and unit of each measure of an iteration."""

RATE = "uncompressed transfer, unthrottled"
HANDOVER = "rounds to the learner, one machine"
WEIGHTS_HERE = "weights to all actors, one machine"
IN_PLACE, ONE_BATCH = "in place", "as one batch"
CONTROL_RATE = "control plane: messages the head takes a second"
CONTROL_CPU = "control plane: CPU of the head"
CONTROL_DEAD = "control plane: until a dead node is noticed, beyond the deadline"
CONTROL_KILLED = "control plane: until a killed worker is noticed"


@dataclass(frozen=True)
class Size:
    """The size of an iteration."""

    actors: int
    steps: int

    def __str__(self) -> str:
        return f"{self.actors} actors × {self.steps} steps"


def group(measure: str, speed: str, size: Size | None = None) -> str:
    """A measure of iterations over a link; ``size`` if it is not the usual size."""
    return f"{measure}, {speed}" if size is None else f"{measure}, {speed}, {size}"


def case(measure: str, speed: str, who: str, size: Size | None = None) -> str:
    """A measure of one contestant's iterations over a link."""
    return f"{group(measure, speed, size)}: {who}"


def first_use(speed: str) -> str:
    """Weights across nodes: the time from publishing to first use."""
    return f"weights to the actors of two nodes, {speed}"


def copies(speed: str) -> str:
    """Weights across nodes: the number of copies that a node receives."""
    return f"copies of the weights a node receives, {speed}"


def training(speed: str) -> str:
    """A whole run of PPO on Pong, over links of a given speed."""
    return f"iteration of training, {speed}"


def training_wire(speed: str) -> str:
    """The bytes on the wire per update of such a run."""
    return f"bytes on the wire of training, {speed}"


def fleet(workers: int) -> str:
    """A fleet of simulated workers."""
    return f"{OURS}, {workers:,} workers"
