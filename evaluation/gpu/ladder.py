"""What it costs to hand one device from a learner to another, by the level of the ladder.

``python -m evaluation.gpu.ladder --device cuda:0 --level PARK --turns 50`` answers with ``ms``, the
median over all hand-overs: from the end of one learner's update until the other one has all it
needs on the device. Before PARK and TRIM the first one clears it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

from artos.pool.devices import device_resource
from artos.pool.pool import Pool
from artos.pool.resources import Resource
from artos.specs.levels import Level
from evaluation.baselines.timing import answer
from evaluation.gpu.learner import PATIENCE, Turn

_WARM_UP = 4
"""Turns that do not count: the first ones start libraries and pin memory."""


def hand_overs(device: str, level: Level, turns: int) -> list[float]:
    """Milliseconds of each hand-over between two learners, the first ones left out."""
    if level is Level.END:
        (taken,) = _ended([_started("returning", device, "--turns", str(2 * turns))])
    else:
        taken = sorted(turn for each in _side_by_side(device, level, turns) for turn in each)
    waits = [1e3 * (ready - done) for (_, done), (ready, _) in pairwise(taken)]
    return waits[_WARM_UP:]


def lent(device: str) -> Resource:
    """The device as a resource; ``cpu`` is one of them, too."""
    return device_resource(device if device.startswith("cuda") else "cpu:0")


def _side_by_side(device: str, level: Level, turns: int) -> list[list[Turn]]:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        folder = Path(name, "pool")
        arguments = ("--level", level.name, "--turns", str(turns), "--pool", str(folder))
        with Pool.join([lent(device)], folder=folder):
            return _ended([_started("learner", device, *arguments) for _ in range(2)])


def _started(module: str, device: str, *arguments: str) -> subprocess.Popen[str]:
    command = (sys.executable, "-P", "-m", f"evaluation.gpu.{module}", "--device", device)
    return subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, text=True)


def _ended(learners: list[subprocess.Popen[str]]) -> list[list[Turn]]:
    try:
        return [json.loads(each.communicate(timeout=PATIENCE)[0]) for each in learners]
    finally:
        for each in learners:
            each.kill()
            each.wait()


def main() -> None:
    """Measure one level."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--level", choices=[each.name for each in Level], default="KEEP")
    parser.add_argument("--turns", type=int, default=50)
    options = parser.parse_args()
    found = hand_overs(options.device, Level[options.level], options.turns)
    answer({"ms": statistics.median(found)}, ("torch",))


if __name__ == "__main__":
    main()
