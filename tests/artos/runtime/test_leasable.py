"""The devices of a pool that a learner's process can compute on."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from artos.learners.device import on_cpu
from artos.pool.pool import Pool
from artos.pool.resources import Resource
from artos.runtime.leasable import name_of, own_resources, pool_faults, usable
from artos.system import gpus


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch says that there are two."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    properties = [SimpleNamespace(uuid="b2"), SimpleNamespace(uuid="a1")]  # not as the bus has them
    monkeypatch.setattr(torch.cuda, "get_device_properties", properties.__getitem__)
    memory = {"a1": 900, "b2": 800}
    monkeypatch.setattr(gpus, "memory_mb", lambda number, uuid="": memory.get(uuid, 0))


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch says that there is none."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


def test_devices_of_the_pool_that_torch_can_use(two_gpus: None) -> None:
    there = [Resource(name) for name in ("cuda:0", "cuda:2", "cpu:a", "npu:0", "cuda")]
    assert usable(there) == ["cuda:0", "cpu:a", "cuda"]
    assert [name_of(each) for each in there] == ["cuda:0", "", "cpu", "", "cuda"]
    assert not on_cpu("pool")
    found = [(each.name, each.memory_mb) for each in own_resources()]
    assert found == [("cuda:0", 800), ("cuda:1", 900)]


def test_a_gpu_of_the_pool_is_found_by_its_uuid(two_gpus: None) -> None:
    """As where ``CUDA_VISIBLE_DEVICES`` is another one than that of who gave the pool its GPUs."""
    there = [Resource(f"cuda:{n}", uuid=uuid) for n, uuid in enumerate(("a1", "c3", "b2"))]
    assert [name_of(each) for each in there] == ["cuda:1", "", "cuda:0"]
    assert usable(there) == ["cuda:0", "cuda:2"]


def test_devices_of_the_pool_without_a_gpu(no_gpu: None) -> None:
    assert own_resources() == [Resource("cpu:0")]
    assert usable([Resource("cuda:0")]) == []
    assert on_cpu("pool")
    assert not list(pool_faults()), "there is no pool yet"
    slot = Resource("slot:0", "slot")
    with Pool.join([Resource("cuda:0"), slot]):
        (said,) = pool_faults()
        assert "the pool of this machine has cuda:0, and torch can use none" in said
        with Pool.join([Resource("cpu:a")]):
            assert not list(pool_faults())


def test_a_user_names_the_devices_of_a_pool_that_has_none(
    no_gpu: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARTOS_DEVICES", " cpu:a=2, cpu:b ")
    assert own_resources() == [Resource("cpu:a", share=2), Resource("cpu:b")]
    assert not list(pool_faults())
    monkeypatch.setenv("ARTOS_DEVICES", "gpu:1,cpu:b=0,cuda:0")
    said = list(pool_faults())
    assert [each.partition(": ")[0] for each in said] == ["ARTOS_DEVICES"] * len(said)
    assert len(said) >= 2
    assert "unknown device 'gpu:1'" in said[0]
    with Pool.join([Resource("cpu:c")]):  # so the variable does not matter
        assert not list(pool_faults())


def test_a_user_names_a_gpu_that_torch_cannot_use(
    no_gpu: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARTOS_DEVICES", "cuda:0")
    monkeypatch.setattr(gpus, "count", lambda: None)
    (said,) = pool_faults()
    assert "torch can use none" in said
