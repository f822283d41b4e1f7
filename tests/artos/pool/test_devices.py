"""Devices as users list them, and which of those in the pool a learner is given."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import pytest

from artos.clock import ManualClock
from artos.pool.devices import device_faults, device_resource, lent
from artos.pool.faults import PoolRefused
from artos.pool.folder import pool_folder
from artos.pool.pool import Pool
from artos.pool.resources import Resource
from artos.pool.view import look
from artos.system import gpus

A, B, GPU = Resource("cpu:a"), Resource("cpu:b"), Resource("cuda:0", memory_mb=900)


@pytest.mark.parametrize(
    ("text", "there", "said"),
    [
        ("cpu:a,gpu,cpu:a, ,cuda:2", 2, [
            "device 'cpu:a' is listed 2 times: once is enough",
            "unknown device 'gpu': write cuda:N, or cpu:NAME with a name of your own",
            "unknown device '': write cuda:N, or cpu:NAME with a name of your own",
            "there is no device 'cuda:2': this machine has cuda:0 to cuda:1",
        ]),
        ("cuda,cpu:,cpu:a b,cpu", 1, ["unknown device"] * 4),
        ("cuda:1", 1, ["there is no device 'cuda:1': this machine has cuda:0 only"]),
        ("cuda:0", 0, ["there is no device 'cuda:0': this machine has no GPU"]),
        (f"cpu:{'x' * 60}", 0, ["unknown device"]),
        ("cuda:7", None, []), ("cuda:0, cpu:a-1.b", 1, []), ("", 0, []),
    ],
)  # fmt: skip
def test_all_faults_of_a_list_at_once(
    text: str, there: int | None, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpus, "count", lambda: there)
    found = [*device_faults(text)]
    pairs = zip(sorted(found), sorted(said), strict=True)
    assert all(fault.startswith(words) for fault, words in pairs)


def test_a_gpu_that_cannot_be_checked_is_trusted_and_told(
    logged: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpus, "count", lambda: None)
    monkeypatch.setattr(gpus, "memory_mb", lambda number: 0)
    with lent("cuda:0,cpu:a", "artos head"):
        assert [each.name for each in look().resources] == ["cuda:0", "cpu:a"]
        (line,) = logged
        assert "whether cuda:0 exist cannot be checked here" in line
    assert not pool_folder().exists()
    with lent("", "artos head"):
        assert not pool_folder().exists()
    assert len(logged) == 1


class Nvml:
    """Stands for the driver's library: two GPUs, of 900 and 800 MB."""

    memory = (900 << 20, 800 << 20)

    def nvmlDeviceGetCount_v2(self, found: Any) -> int:  # noqa: N802
        found._obj.value = len(self.memory)
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, number: int, handle: Any) -> int:  # noqa: N802
        handle._obj.value = number + 1
        return int(number >= len(self.memory))

    def nvmlDeviceGetHandleByUUID(self, name: bytes, handle: Any) -> int:  # noqa: N802
        handle._obj.value = 2
        return int(name != b"GPU-b")

    def nvmlDeviceGetMemoryInfo(self, handle: ctypes.c_void_p, memory: Any) -> int:  # noqa: N802
        memory._obj.total = self.memory[(handle.value or 0) - 1]
        return 0


@pytest.mark.parametrize(
    ("visible", "memory_mb"),
    [(None, [900, 800]), ("1,0", [800, 900]), ("GPU-b", [800]), ("GPU-c,7", [0, 0]), ("", [])],
)
def test_gpus_are_counted_without_torch(
    visible: str | None, memory_mb: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpus, "_nvml", Nvml)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert gpus.count() == len(memory_mb)
    assert [device_resource(f"cuda:{n}").memory_mb for n in range(len(memory_mb))] == memory_mb
    assert visible is None or gpus.memory_mb(len(memory_mb)) == 0
    assert device_resource("cpu:a") == A


def test_without_the_library_of_the_driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(gpus, "_nvml", lambda: None)
    monkeypatch.setattr(gpus, "Path", lambda name: tmp_path)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert gpus.count() is None
    for name in ("nvidia0", "nvidia1", "nvidiactl"):
        (tmp_path / name).touch()
    assert gpus.count() == 2
    assert gpus.memory_mb(0) == 0


# -- in the pool -----------------------------------------------------------------------------------


def test_what_a_pool_has_of_a_kind_stays_as_it_is(folder: Path, clock: ManualClock) -> None:
    with Pool.join(otherwise=[A], folder=folder, clock=clock) as pool:
        assert pool.resources == [A]
        slot = Resource("slot:0", "slot")
        with Pool.join([B], otherwise=[GPU, slot], folder=folder, clock=clock):
            assert pool.resources == [A, B, slot] or pool.resources == [A, slot, B]


def test_what_is_given_otherwise_replaces_what_the_dead_left(
    folder: Path, clock: ManualClock
) -> None:
    pool = Pool.join([GPU], folder=folder, clock=clock)
    pool.table.locks.drop(pool.member)  # as the kernel does when its process is killed
    with Pool.join(otherwise=[A], folder=folder, clock=clock) as after:
        assert after.resources == [A]
        pool.forked()
        pool.table.close()


def test_who_may_have_one_of_several_has_that_which_fewest_have(
    folder: Path, clock: ManualClock
) -> None:
    names = ["cpu:a", "cpu:b"]
    shared = Resource("cpu:b", share=2)
    with Pool.join([A, shared, GPU], folder=folder, clock=clock) as pool:
        seats = [pool.enter(f"w{n}", names) for n in range(4)]
        assert [seat.what for seat in seats] == ["cpu:b", "cpu:a", "cpu:b", "cpu:b"]
        seats[1].close()
        assert pool.enter("w4", names).what == "cpu:a"
        with seats[0].lease() as lease:
            assert lease.resource == "cpu:b"
        with pytest.raises(PoolRefused, match="the pool has no 'cpu:x or cpu:y'"):
            pool.enter("w5", ["cpu:x", "cpu:y"])


def test_memory_that_is_lacking(folder: Path, clock: ManualClock) -> None:
    with Pool.join([GPU, A], folder=folder, clock=clock) as pool:
        pool.enter("here", "cuda:0", memory_mb=600)
        assert pool.lacking_mb("cuda:0") == 0
        anywhere = pool.enter("anywhere", memory_mb=500)
        assert pool.lacking_mb("cuda:0") == 200
        anywhere.close()
        assert pool.lacking_mb("cuda:0") == 0
        assert pool.lacking_mb("cpu:a") == 0
