"""The planted bottlenecks: how each is run, and the settings of its sweep."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from artos.errors import ArtosError

PLANTED = Path(__file__).with_name("planted.py")
_SET, _FLAG = re.compile(r"--set ([a-z_]+)=(\S+)"), re.compile(r"--(?!set\b)([a-z-]+) (\S+)")
_QUOTA = re.compile(r"a quota of slots = (\d+)")
QUOTA, DISK = "quota", "disk"
"""What is no setting of a run: the slots of its user, and where its folder is."""
FLAGS = ("actors", "priority", "device", "total-updates")
"""Settings that are flags of their own."""

Settings = Mapping[str, str]


class Way(StrEnum):
    """How a case is run."""

    ALONE = "alone"
    DISK = "on a disk that takes long for everything"
    BESIDE = "beside another run that wants the same device"
    LINK = "on a cluster with a slow link"
    NODES = "on a cluster"


@dataclass(frozen=True)
class Case:
    """A run whose ``bottleneck`` was planted by ``settings``.

    ``sweep`` has the alternatives, of which the best says what is possible. A run lasts for so many
    ``updates``; those that do more at a time may say ``total-updates`` themselves.
    """

    bottleneck: str
    workload: str
    settings: Settings
    sweep: tuple[Settings, ...]
    updates: int = 6
    way: Way = Way.ALONE


class NotUnderstood(ArtosError):
    """An advice has nothing that could be set."""

    def __init__(self, advice: str) -> None:
        self.advice = advice
        super().__init__(f"the advice {advice!r} says nothing that the benchmark could set")


def settings_of(advice: str) -> Settings:
    """What an advice of ``artos why`` says to set.

    Raises:
        NotUnderstood: it says nothing that could be set.
    """
    found = dict(_SET.findall(advice))
    if quota := _QUOTA.search(advice):
        found[QUOTA] = quota[1]
    if "--run-dir" in advice:
        found[DISK] = "fast"
    else:
        found |= {name: value for name, value in _FLAG.findall(advice) if name in FLAGS}
    if not found:
        raise NotUnderstood(advice)
    return found


def words_of(settings: Settings) -> list[str]:
    """Settings as flags of ``artos run``."""
    words: list[str] = []
    for name, value in settings.items():
        if name in FLAGS:
            words += [f"--{name}", value]
        elif name not in (QUOTA, DISK):
            words += ["--set", f"{name}={value}"]
    return words


def _own(name: str) -> str:
    return f"{PLANTED}:{name}"


CASES = (
    Case(
        "slow environment", _own("workload"),
        {"actors": "1", "step_s": "0.1", "row_s": "0.002"},
        ({"actors": "2"}, {"actors": "4"}, {"steps": "32"}),
    ),
    Case(
        "one straggler", _own("workload"),
        {"actors": "3", "step_s": "0.04", "straggle": "6", "n": "3", "max_lag": "4"},
        (
            {"n": "2", "max_lag": "12"},
            {"n": "1", "max_lag": "12", "total-updates": "24"},
            {"max_lag": "12"},
        ),
        updates=12,
    ),
    Case(
        "lag gate", _own("workload"),
        {"step_s": "0.12", "row_s": "0.06"},
        ({"max_lag": "1"}, {"max_lag": "2"}, {"steps": "32"}),
    ),
    Case(
        "small batch", _own("workload"),
        {"steps": "1", "row_s": "0"},
        tuple(
            {"steps": str(steps), "total-updates": str(updates)}
            for steps, updates in ((8, 60), (32, 60), (256, 40), (1024, 20))
        ),
        updates=80,
    ),
    Case(
        "slow disk", _own("workload"),
        {"step_s": "0.005", "row_s": "0.001"},
        ({DISK: "fast"}, {"checkpoint": "all"}, {"steps": "32"}),
        updates=20, way=Way.DISK,
    ),
    Case(
        "too many threads", "ppo",
        {"env": "CartPole-v1", "actors": "1", "threads": "32", "steps": "64", "hidden": "256,256",
         "minibatches": "1", "epochs": "8"},
        ({"threads": "0"}, {"threads": "1"}, {"threads": "2"}, {"threads": "8"}),
        updates=25,
    ),
    Case(
        "learner", _own("divided"),
        {"step_s": "0.02", "row_s": "0.1"},
        ({"learners": "2"}, {"learners": "4"}),
    ),
    Case(
        "network", _own("workload"),
        {"step_s": "0.01", "row_s": "0.001", "weights": "2000000", "wire_dtype": "float32"},
        (
            {"wire_dtype": "bfloat16"}, {"max_lag": "1"},
            {"wire_dtype": "bfloat16", "max_lag": "1"},
        ),
        way=Way.LINK,
    ),
    Case(
        "device contention", _own("divided"),
        {"actors": "1", "step_s": "0.01", "row_s": "0.03", "device": "pool"},
        ({"priority": "1"}, {"weight": "4"}),
        way=Way.BESIDE,
    ),
    Case(
        "parked too eagerly", "ppo",
        {"env": "CartPole-v1", "actors": "2", "steps": "64", "park": "checkpoint"},
        ({"park": "memory"}, {"park": "freeze"}, {"park": "never"}, {"park": "auto"}),
        updates=20,
    ),
    Case(
        "replay ratio", _own("replayed"),
        {"step_s": "0.01", "learn_s": "0.08", "ratio": "16"},
        ({"ratio": "8"}, {"ratio": "4"}, {"ratio": "2"}, {"ratio": "1"}),
        updates=40,
    ),
    Case(
        "scheduler's quota", _own("workload"),
        {"step_s": "0.04", "row_s": "0.001", QUOTA: "1"},
        ({QUOTA: "2"}, {"max_lag": "1"}),
        way=Way.NODES,
    ),
)  # fmt: skip
