"""A learner's process as far as its device is concerned: a network with Adam, and its turns.

``python -m evaluation.gpu.learner --device cuda:0 --level PARK --turns 50 --pool FOLDER`` takes
turns with another such process and prints, for each turn, when everything was on the device and
when its update was over (seconds of the machine's clock).
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import torch
from torch import nn

from artos.clock import Deadline
from artos.learners.device import Device, device_of
from artos.learners.network import Network
from artos.learners.optimisers import Adam
from artos.learners.residency import Residency
from artos.pool.pool import Pool
from artos.pool.seat import Lease
from artos.specs.levels import Level

PATIENCE = 120.0
_WIDTH, _OUT, _BATCH = 1024, 620, 256
Turn = tuple[float, float]
"""When a learner could compute, and when it had."""


def network_on(device: Device) -> Network:
    """A network whose weights take 6.7 MB, and Adam's moments twice that."""
    module = nn.Sequential(nn.Linear(_WIDTH, _WIDTH), nn.ReLU(), nn.Linear(_WIDTH, _OUT))
    return Network(module, Adam(1e-3), place=device.device)


def update(network: Network, device: Device) -> None:
    """One step, and wait until it is done."""
    data = torch.ones(_BATCH, _WIDTH, device=device.device)
    network.step(network(data).square().mean())
    device.synchronize()


def take_turns(name: str, level: Level, turns: int, folder: Path) -> list[Turn]:
    """Update so many times, by leases of the pool in ``folder``, and clear the device each time."""
    device, found = device_of(name), list[Turn]()
    network = network_on(device)
    residency = Residency(device, lambda: [network])
    with Pool.join(folder=folder, name="learner") as pool:
        seat = pool.enter(f"learner {id(pool)}")
        for _ in range(turns):
            with seat.lease(PATIENCE, wait=PATIENCE) as lease:
                residency.enter()
                device.synchronize()
                ready = time.perf_counter()
                update(network, device)
                _until_wanted(lease)
                found.append((ready, time.perf_counter()))
                residency.leave(level)
    return found


def _until_wanted(lease: Lease) -> None:
    """What is measured is a hand-over: another learner must wait."""
    deadline = Deadline(1.0)
    while not lease.wanted and not deadline.passed:  # the other one may be at its end
        time.sleep(1e-4)


def main() -> None:
    """Take turns."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--level", choices=[each.name for each in Level], default="KEEP")
    parser.add_argument("--turns", type=int, default=50)
    parser.add_argument("--pool", type=Path, required=True)
    options = parser.parse_args()
    turns = take_turns(options.device, Level[options.level], options.turns, options.pool)
    print(json.dumps(turns), flush=True)


if __name__ == "__main__":
    main()
