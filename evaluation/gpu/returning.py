"""A learner whose process ends after each update and returns from the model block (level END).

``python -m evaluation.gpu.returning --device cuda:0 --turns 10`` prints, as ``learner`` does, when
each process had everything on the device and when its update was published. Processes are forked,
as a run's are, from one that has imported torch and never used a GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import struct
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from artos.buffer.model_block import ModelBlock, ObjectSpec
from artos.buffer.object_region import ObjectRegion
from artos.learners.device import Device, device_of
from artos.learners.network import Network
from artos.specs.keys import MODEL_PARAM, ArraySpec
from evaluation.gpu.learner import Turn, network_on, update

_TURN = struct.Struct("<2d")


def come_and_go(name: str, turns: int, folder: Path) -> list[Turn]:
    """So many processes, one after the other, each for one update."""
    torch.set_num_threads(1)  # a fork would lose the others
    first = _live(network_on(Device()))
    arrays = [ArraySpec(key, tuple(each.shape), "float32") for key, each in first.items()]
    block = ModelBlock.create(folder / "model", [ObjectSpec.sized(MODEL_PARAM, arrays, 1)])
    block[MODEL_PARAM].publish(first)
    return [_one(name, block[MODEL_PARAM]) for _ in range(turns)]


def _live(network: Network) -> dict[str, Tensor]:
    state = network.state()
    return {key if key == "params" else f"learner.{key}": each for key, each in state.items()}


def _one(name: str, region: ObjectRegion) -> Turn:
    reader, writer = os.pipe()
    if not (child := os.fork()):
        status = 1
        try:
            os.write(writer, _TURN.pack(*_turn(name, region)))
            status = 0
        finally:
            os._exit(status)
    os.close(writer)
    with open(reader, "rb") as told:  # noqa: PTH123  # a descriptor
        data = told.read()
    os.waitpid(child, 0)  # its memory on the device is free by then
    ready, done = _TURN.unpack(data)
    return ready, done


def _turn(name: str, region: ObjectRegion) -> Turn:
    device = device_of(name)
    network = network_on(device)
    live: Mapping[str, Tensor] = _live(network)
    region.restore(live)
    network.restored()
    device.synchronize()
    ready = time.perf_counter()
    update(network, device)
    region.publish(live)
    return ready, time.perf_counter()


def main() -> None:
    """Come and go."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--turns", type=int, default=10)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        print(json.dumps(come_and_go(options.device, options.turns, Path(folder))), flush=True)


if __name__ == "__main__":
    main()
