"""What travels to a GPU and back, and what leaves its memory."""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gpus import GPU, needs_gpu
from torch import nn

from artos.buffer.model_block import ModelBlock, ObjectSpec
from artos.learners.device import Gpu, device_of, uuid_of
from artos.learners.network import Network
from artos.learners.optimisers import Adam
from artos.learners.residency import Residency
from artos.specs.keys import ArraySpec
from artos.specs.levels import Level
from artos.system import gpus

pytestmark = needs_gpu


@pytest.fixture
def gpu() -> Any:
    return device_of(GPU)


def a_network(gpu: Gpu) -> Network:
    """Of 6.7 MB."""
    module = nn.Sequential(nn.Linear(1024, 1024), nn.Linear(1024, 620))
    network = Network(module, Adam(1e-3), place=gpu.device)
    network.step(network(torch.ones(8, 1024, device=gpu.device)).square().mean())
    return network


def test_arrays_arrive_even_if_they_are_reused_at_once(gpu: Gpu) -> None:
    array, arrived = np.empty((1 << 20,), np.float32), []
    for number in range(50):
        array[:] = number
        arrived.append(gpu.tensor(array) * 2)
    for number, tensor in enumerate(arrived):
        assert bool((tensor == 2 * number).all()), number


def test_every_dtype_arrives(gpu: Gpu) -> None:
    for dtype in (np.float32, np.int64, np.uint8, bool, np.int8, np.float64):
        array = np.arange(6).reshape(2, 3).astype(dtype)
        tensor = gpu.tensor(array)
        assert str(tensor.device) == GPU
        np.testing.assert_array_equal(tensor.cpu().numpy(), array)


def test_weights_come_back_into_pinned_slots(gpu: Gpu, tmp_path: Path) -> None:
    spec = ObjectSpec("model_param", (ArraySpec("params", (1 << 20,), "float32"),), 2, 4)
    block = ModelBlock.create(tmp_path / "model", [spec])
    gpu.pin(block.segment.memory)
    region = block["model_param"]
    assert torch.from_numpy(region.slots[0].arrays["params"]).is_pinned()
    values = torch.zeros(1 << 20, device=gpu.device)
    for version in range(20):
        values += 1
        region.publish({"params": values})
        assert (region.newest.arrays["params"] == version + 1).all()
    values.zero_()
    region.restore({"params": values})
    assert bool((values == 20).all())
    address = region.slots[0].arrays["params"].ctypes.data
    del region, block  # unmapped, and not pinned any more: another block may be mapped there
    again = ModelBlock.create(tmp_path / "again", [spec])
    gpu.pin(again.segment.memory)
    slot = again["model_param"].slots[0].arrays["params"]
    assert torch.from_numpy(slot).is_pinned(), (address, slot.ctypes.data)


def test_parking_gives_the_memory_back(gpu: Gpu) -> None:
    network = a_network(gpu)
    other = a_network(gpu)
    other.values.copy_(network.values)
    residency = Residency(gpu, lambda: [network, other])
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    residency.leave(Level.PARK)
    assert before - torch.cuda.memory_allocated() >= 2 * 4 * 6_700_000
    filler = torch.ones(1 << 24, device=gpu.device)  # what comes back lies elsewhere
    residency.enter()
    data = torch.ones(8, 1024, device=gpu.device)
    assert torch.equal(network(data), network.module(data))
    assert torch.equal(network.values, other.values)
    network.step(network(data).square().mean())
    assert network.steps == 2
    del filler


def test_the_driver_knows_the_gpu_that_torch_computes_on(gpu: Gpu) -> None:
    uuid, total = uuid_of(0), torch.cuda.get_device_properties(0).total_memory >> 20
    assert 0.9 * total <= gpus.memory_mb(0, uuid) <= 1.2 * total
    torch.ones(1, device=gpu.device)
    print(f"\ncontext: {gpu.context_bytes >> 20} MB, driver: {gpus.own_bytes(uuid)}")
    assert 50 << 20 < gpu.context_bytes < 2 << 30


def test_beyond_its_limit_there_is_no_room(gpu: Gpu) -> None:
    gpu.drop_caches()
    gpu.limit(torch.cuda.memory_reserved(gpu.device) + (64 << 20))
    try:
        with pytest.raises(gpu.out_of_memory):
            torch.empty(128 << 20, dtype=torch.uint8, device=gpu.device)
    finally:
        gpu.limit(torch.cuda.get_device_properties(0).total_memory)


def test_what_a_level_costs(gpu: Gpu) -> None:
    """Prints; the goal of PARK is 5 ms out and back together, PipeSwitch's start 3.6 to 6.6."""
    network = a_network(gpu)
    residency = Residency(gpu, lambda: [network])
    for level in (Level.TRIM, Level.PARK):
        times = []
        for _ in range(50):
            gpu.synchronize()
            began = time.perf_counter()
            residency.leave(level)
            out = time.perf_counter()
            residency.enter()
            times.append((out - began, time.perf_counter() - out))
        out_ms, back_ms = (1e3 * statistics.median(each) for each in zip(*times, strict=True))
        print(f"\n{level.name}: out {out_ms:.2f} ms, back {back_ms:.2f} ms")
    assert residency.costs[Level.PARK].freed > 20_000_000
