"""Devices as users list them, and which of those in the pool a learner is given."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from artos.clock import ManualClock
from artos.pool.devices import device_faults, device_resource, lent, places
from artos.pool.faults import PoolRefused
from artos.pool.folder import pool_folder
from artos.pool.pool import Pool
from artos.pool.resources import Resource
from artos.pool.view import read_pool
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
        ("cpu:a=0,cpu:b=x,cpu:c=,gpu=2,cpu:d=-1,cpu:e=9999", 1, [
            "device 'cpu:a' is for '0' learners at once: write cpu:a=2 for two",
            "device 'cpu:b' is for 'x' learners", "device 'cpu:c' is for '' learners",
            "unknown device 'gpu'", "device 'cpu:d' is for '-1'", "device 'cpu:e' is for '9999'",
        ]),
        ("cpu:a,cpu:a=2", 1, ["device 'cpu:a' is listed 2 times"]),
        ("cuda:0=2 , cpu:a = 3", 1, []),
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
    monkeypatch.setattr(gpus, "memory_mb", lambda number, uuid: 0)
    with lent("cuda:0,cpu:a", "artos head"):
        assert [each.name for each in read_pool().resources] == ["cuda:0", "cpu:a"]
        (line,) = logged
        assert "whether there is cuda:0 cannot be checked here" in line
    assert not pool_folder().exists()
    with lent("", "artos head"):
        assert not pool_folder().exists()
    assert len(logged) == 1


@pytest.mark.parametrize(("text", "at_once"), [("cpu:a=2", 2), ("cpu:a", 1), ("cpu:a=1", 1)])
def test_so_many_learners_have_a_device_at_once(text: str, at_once: int) -> None:
    with lent(text, "artos worker"), Pool.join() as pool:
        assert [each.share for each in pool.resources] == [at_once] == [places(text)]
        seats = [pool.enter(f"w{n}", "cpu:a") for n in range(3)]
        leases = [seat.ask_for_lease() for seat in seats]
        assert [lease is not None for lease in leases] == [n < at_once for n in range(3)]
        assert read_pool().resources[0].holders == at_once
        assert leases[0] is not None
        leases[0].close()
        assert [seat.take_lease() is not None for seat in seats] == [n == at_once for n in range(3)]


def test_daemons_that_differ_in_how_many_have_a_device_are_refused() -> None:
    with lent("cpu:a=2,cpu:b", "artos head"):
        with lent("cpu:a=2", "artos worker"):
            assert places("cpu:a=2,cpu:b") == 3
        with pytest.raises(PoolRefused, match="all must agree"), lent("cpu:a", "artos worker"):
            pytest.fail("not lent")


class Nvml:
    """Stands for the driver's library: two GPUs of 900 and 800 MB, in the order of the PCI bus."""

    class NVMLError(Exception):
        """As the library's."""

    uuids, memory = ("GPU-a1", "GPU-b2"), (900, 800)

    def __init__(self, *names: str) -> None:
        self.names = names or ("one model", "one model")

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self.uuids)

    def nvmlDeviceGetHandleByIndex(self, number: int) -> int:  # noqa: N802
        return number

    def nvmlDeviceGetHandleByUUID(self, name: str) -> int:  # noqa: N802
        raise self.NVMLError

    def nvmlDeviceGetUUID(self, handle: int) -> str:  # noqa: N802
        return self.uuids[handle]

    def nvmlDeviceGetName(self, handle: int) -> str:  # noqa: N802
        return self.names[handle]

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> Any:  # noqa: N802
        return SimpleNamespace(total=self.memory[handle] << 20)

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> Any:  # noqa: N802
        return SimpleNamespace(gpu=10 * handle)

    def nvmlDeviceGetComputeRunningProcesses(self, handle: int) -> list[Any]:  # noqa: N802
        if handle:
            raise self.NVMLError
        return [SimpleNamespace(pid=pid, usedGpuMemory=pid << 20) for pid in (1, os.getpid())]


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> Nvml:
    """A machine with two GPUs of one model."""
    driver = Nvml()
    monkeypatch.setattr(gpus, "_nvml", lambda: driver)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)
    return driver


@pytest.mark.parametrize(
    ("visible", "memory_mb"),
    [
        (None, [900, 800]), ("1,0", [800, 900]), ("GPU-b2", [800]), ("GPU-b", [800]), ("", []),
        ("GPU-c,0", []), ("1,7,0", [800]), ("-1", []), ("GPU-b2,GPU-a1", [800, 900]),
    ],
)  # fmt: skip
def test_gpus_are_counted_without_torch(
    visible: str | None, memory_mb: list[int], nvml: Nvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert gpus.count() == len(memory_mb)
    assert gpus.told_apart()
    assert [device_resource(f"cuda:{n}").memory_mb for n in range(len(memory_mb))] == memory_mb
    assert gpus.memory_mb(len(memory_mb)) == 0
    assert device_resource("cpu:a") == A


def test_with_unlike_gpus_only_cuda_knows_which_is_which(
    nvml: Nvml, logged: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml.names = ("slow", "fast")  # CUDA takes the fast one first
    assert gpus.count() == 2
    assert not gpus.told_apart()
    assert [gpus.memory_mb(n) for n in range(2)] == [0, 0]
    assert [gpus.memory_mb(0, uuid) for uuid in ("b2", "a1")] == [800, 900]
    with lent("cuda:0", "artos head"):
        assert read_pool().resources[0].memory_mb == 0
    (line,) = logged
    assert "set CUDA_DEVICE_ORDER=PCI_BUS_ID" in line
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    assert [gpus.memory_mb(n) for n in range(2)] == [900, 800]
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "FASTEST_FIRST")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-b2,GPU-a1")
    assert [gpus.memory_mb(n) for n in range(2)] == [800, 900]


def test_what_a_process_has_of_a_gpu_and_how_busy_that_is(nvml: Nvml) -> None:
    assert gpus.own_bytes("a1") == os.getpid() << 20
    assert gpus.own_bytes("b2") is None, "the driver does not say"
    assert [gpus.busy_percent(n) for n in range(3)] == [0, 10, None]
    assert gpus.busy_percent(0, "b2") == 10


def test_on_a_machine_without_a_driver_the_real_library_says_so() -> None:
    if list(Path("/dev").glob("nvidia*")):
        pytest.skip("there is a driver")
    assert gpus._nvml() is None
    assert gpus.busy_percent(0, "GPU-a1") is None


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


# -- which GPU a name means ------------------------------------------------------------------------

ONE, OTHER = "11111111-2222-3333-4444-555555555555", "f1111111-2222-3333-4444-555555555555"


def test_two_processes_that_call_two_gpus_by_one_name_do_not_share_one(
    folder: Path, clock: ManualClock
) -> None:
    mine = Resource("cuda:0", uuid=ONE)
    with Pool.join([mine], folder=folder, clock=clock) as pool:
        assert pool.resources == [mine]
        assert read_pool(folder, clock).resources[0].uuid == ONE
        with pytest.raises(PoolRefused, match=f"cuda:0 is the GPU {OTHER} here.*CUDA_VISIBLE_DEV"):
            Pool.join([Resource("cuda:0", uuid=OTHER)], folder=folder, clock=clock)
        with pytest.raises(PoolRefused, match=f"cuda:1 is the GPU {ONE} here, .* cuda:0 is {ONE}"):
            Pool.join([Resource("cuda:1", uuid=ONE)], folder=folder, clock=clock)
        for same in (mine, Resource("cuda:0"), Resource("cuda:1", uuid=OTHER)):
            Pool.join([same], folder=folder, clock=clock).close()


def test_a_gpu_in_the_pool_has_the_uuid_that_the_driver_tells(
    nvml: Nvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvml, "uuids", (f"GPU-{ONE}", f"GPU-{OTHER}"))
    assert [device_resource(f"cuda:{n}").uuid for n in range(3)] == [ONE, OTHER, ""]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert device_resource("cuda:0").uuid == OTHER
    assert device_resource("cuda:0", f"MIG-{ONE}").uuid == ONE
    assert device_resource("cuda:0", "no UUID").uuid == ""


def test_the_pool_shows_how_busy_the_driver_finds_a_gpu_and_never_a_zero_for_unknown(
    nvml: Nvml, monkeypatch: pytest.MonkeyPatch, folder: Path, clock: ManualClock
) -> None:
    monkeypatch.setattr(nvml, "uuids", (f"GPU-{ONE}", f"GPU-{OTHER}"))
    there = [Resource("cuda:0", uuid=ONE), Resource("cuda:1", uuid=OTHER), Resource("cuda:2"), A]
    with Pool.join(there, folder=folder, clock=clock):
        found = [each.busy_percent for each in read_pool(folder, clock).resources]
        assert found == [0, 10, None, None]
        monkeypatch.setattr(gpus, "_nvml", lambda: None)
        assert {each.busy_percent for each in read_pool(folder, clock).resources} == {None}
