"""Where a learner computes: the choice of a device, and what travels to it and back."""

from __future__ import annotations

import functools
import logging
import weakref
from collections.abc import Iterator
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from artos.specs.devices import CPU, GPU, POOL
from artos.system import gpus

AUTO = "auto"
_PORTABLE = 1
_CONTEXT_BYTES = 512 << 20
"""A CUDA context has 0.3 to 0.6 GB, depending on the GPU and what was loaded."""
_log = logging.getLogger(__name__)
_WORDS = f"use {AUTO}, {CPU}, cuda, cuda:N or {POOL}"


def faults(wanted: str) -> Iterator[str]:
    """Why this process cannot use the device that a user named; torch is only asked about GPUs."""
    if wanted in (AUTO, CPU, POOL):  # what the pool has is known to the runtime, which leases it
        return
    gpu = GPU.fullmatch(wanted)
    if gpu is None:
        yield f"unknown device {wanted!r}: {_WORDS}"
    elif not torch.cuda.is_available():
        lacking = "it finds none here (`nvidia-smi` shows what the driver finds)"
        if torch.version.cuda is None:
            lacking = f"torch {torch.__version__} is built without CUDA"
        yield f"device {wanted!r} needs a GPU that torch can use, and {lacking}: use {CPU}"
    elif int(gpu[1] or 0) >= (count := torch.cuda.device_count()):
        yield f"there is no device {wanted!r}, only cuda:0 to cuda:{count - 1}"


def names_gpu(wanted: str) -> bool:
    """Whether a user means a GPU of a machine, which need not be this one."""
    return GPU.fullmatch(wanted) is not None


def uuid_of(number: int) -> str:
    """The UUID of ``cuda:number``, by which the driver knows it, too."""
    return str(torch.cuda.get_device_properties(number).uuid)


def on_cpu(wanted: str) -> bool:
    """Whether a learner with that device computes on the CPU, as far as is known yet."""
    return wanted == CPU or (wanted == POOL and not torch.cuda.is_available())


def chosen(wanted: str, *, large: bool) -> str:
    """The name of the device; with ``auto`` the first GPU, if there is one, for large networks.

    Small ones take longer on a GPU: their kernels are shorter than it takes to launch them.
    """
    if wanted == AUTO:
        return "cuda:0" if large and torch.cuda.is_available() else CPU
    return "cuda:0" if wanted == "cuda" else wanted


class Device:
    """Where networks, batches and optimiser state are; this one needs no transfers of its own.

    On a CPU a tensor shares the memory of the array that it is made of.
    """

    def __init__(self, name: str = CPU) -> None:
        self.device = torch.device(name)

    @property
    def is_cpu(self) -> bool:
        """Whether tensors here share the memory of arrays."""
        return self.device.type == CPU

    def tensor(self, array: NDArray[Any]) -> Tensor:
        """A tensor of the array's values; the array may be reused at once, except on a CPU."""
        return torch.from_numpy(array).to(self.device)

    def pin(self, memory: memoryview) -> None:
        """Make shared memory one that the device copies to and from while others compute."""

    def seed(self, seed: int) -> None:
        """``torch.manual_seed`` for this device alone, in a hundredth of the time."""
        torch.default_generator.manual_seed(seed)

    def host_memory(self, size: int) -> Tensor:
        """So many bytes of the host's, (size,) uint8, that the device copies to and from."""
        return torch.empty(size, dtype=torch.uint8)

    def taken_bytes(self, held: int) -> int:
        """Bytes of the device that others cannot have, where networks hold ``held`` of them."""
        return held

    out_of_memory: type[Exception] = MemoryError
    """What an update raises that finds no room there."""

    @property
    def context_bytes(self) -> int:
        """What a process takes there beside what torch allocates."""
        return 0

    def peak_bytes(self) -> int:
        """The most bytes that torch has had there at once; 0 on a CPU, where it does not count."""
        return 0

    def limit(self, size: int) -> None:
        """From now on torch can have so many bytes there; a CPU is not limited."""

    def synchronize(self) -> None:
        """Wait until everything is done that was asked of the device."""

    def drop_caches(self) -> None:
        """Give memory back that nothing is in."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.device}>"


class Gpu(Device):
    """A CUDA device: arrays travel by pinned memory, on a stream beside the one that computes.

    torch keeps the pinned buffers and uses each again once the copy out of it is over.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        torch.cuda.init()  # type: ignore[no-untyped-call]
        torch.cuda.set_device(self.device)
        self._copies = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]

    def tensor(self, array: NDArray[Any]) -> Tensor:
        """A tensor of the array's values; the array may be reused at once."""
        given = torch.from_numpy(array)
        pinned = torch.empty(given.shape, dtype=given.dtype, pin_memory=True).copy_(given)
        computing = torch.cuda.current_stream(self.device)
        with torch.cuda.stream(self._copies):
            there = pinned.to(self.device, non_blocking=True)
        computing.wait_stream(self._copies)
        there.record_stream(computing)  # or its memory might be reused while it is computed with
        return there

    def pin(self, memory: memoryview) -> None:
        """Have CUDA pin it; where CUDA refuses, copies work, but keep everybody waiting."""
        address = torch.frombuffer(memory, dtype=torch.uint8).data_ptr()
        cudart: Any = torch.cuda.cudart()  # type: ignore[no-untyped-call]
        if refused := int(cudart.cudaHostRegister(address, len(memory), _PORTABLE)):
            _log.warning(
                "weights are published slower: CUDA cannot pin %d bytes of shared memory "
                "(cudaHostRegister: error %d)", len(memory), refused,
            )  # fmt: skip
            return
        # Before it is unmapped, or CUDA would take whatever is mapped there next for pinned.
        weakref.finalize(memory, cudart.cudaHostUnregister, address).atexit = False

    def seed(self, seed: int) -> None:
        """Seed the generator of this GPU alone."""
        torch.cuda.default_generators[self.device.index].manual_seed(seed)

    def host_memory(self, size: int) -> Tensor:
        """So many pinned bytes, (size,) uint8."""
        return torch.empty(size, dtype=torch.uint8, pin_memory=True)

    def taken_bytes(self, held: int) -> int:
        """What torch has reserved, with what it keeps for later; ``held`` is part of it."""
        return torch.cuda.memory_reserved(self.device)

    out_of_memory = torch.OutOfMemoryError

    @property
    def context_bytes(self) -> int:
        """What CUDA takes beside what torch reserves; a guess where the driver does not say."""
        if (taken := gpus.own_bytes(uuid_of(self.device.index))) is None:
            return _CONTEXT_BYTES
        return max(0, taken - torch.cuda.memory_reserved(self.device))

    def peak_bytes(self) -> int:
        """The most bytes that torch has reserved there at once."""
        return torch.cuda.max_memory_reserved(self.device)

    def limit(self, size: int) -> None:
        """From now on torch raises ``OutOfMemoryError`` beyond so many bytes."""
        total = torch.cuda.get_device_properties(self.device).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, size / total), self.device)

    def synchronize(self) -> None:
        """Wait for all streams of the GPU."""
        torch.cuda.synchronize(self.device)

    def drop_caches(self) -> None:
        """Give back what torch has reserved and does not use."""
        torch.cuda.empty_cache()


@functools.cache
def device_of(name: str) -> Device:
    """The device of that name, one per process."""
    return Gpu(name) if name.startswith("cuda") else Device(name)
