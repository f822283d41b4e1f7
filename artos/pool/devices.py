"""Devices as users name them: ``cuda:0``, or ``cpu:NAME`` for turns on the CPU."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from artos.pool import records
from artos.pool.pool import Pool
from artos.pool.resources import Resource
from artos.system import gpus

DEVICE = "device"
"""The kind of these resources."""
CPU_DEVICE = "cpu:"
_GPU, _CPU = re.compile(r"cuda:(\d{1,3})"), re.compile(r"cpu:[A-Za-z0-9][A-Za-z0-9._-]*")
_log = logging.getLogger(__name__)


def device_resource(name: str, uuid: str = "") -> Resource:
    """A device of this machine as a resource, with the memory that a GPU has, if that is known.

    Who has CUDA loaded gives the GPU's UUID, so that it is this one's memory for certain.
    """
    gpu = _GPU.fullmatch(name)
    return Resource(name, DEVICE, memory_mb=gpus.memory_mb(int(gpu[1]), uuid) if gpu else 0)


@contextmanager
def lent(text: str, name: str) -> Iterator[None]:
    """Have these devices in this machine's pool meanwhile; ``device_faults`` were asked for before.

    That GPUs exist was checked without torch, or a warning says that it could not be.

    Raises:
        PoolRefused: other processes know one of them differently.
        PoolFull, PoolVersion, PoolStuck, NotOurs: see ``Pool.join``.
    """
    if not (names := _names(text)):
        yield
        return
    wanted = [each for each in names if _GPU.fullmatch(each)]
    if wanted and gpus.count() is None:
        _log.warning(
            "whether %s exist cannot be checked here: there is neither the library of NVIDIA's "
            "driver (libnvidia-ml.so.1) nor /dev/nvidia0", ", ".join(wanted),
        )  # fmt: skip
    elif wanted and not gpus.told_apart():
        _log.warning(
            "the memory of %s is not counted: GPUs of several models are here, and only CUDA knows "
            "in which order it takes them; set CUDA_DEVICE_ORDER=PCI_BUS_ID, here and for runs",
            ", ".join(wanted),
        )
    with Pool.join(map(device_resource, names), name=name):
        yield


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")] if text else []


def device_faults(text: str) -> Iterator[str]:
    """What is wrong with the devices that a user lists, as in ``cuda:0,cpu:a``."""
    for name, times in Counter(_names(text)).items():
        gpu = _GPU.fullmatch(name)
        if not (gpu or _CPU.fullmatch(name)) or len(name) > records.NAME_BYTES:
            yield f"unknown device {name!r}: write cuda:N, or cpu:NAME with a name of your own"
        elif times > 1:
            yield f"device {name!r} is listed {times} times: once is enough"
        elif gpu and (there := gpus.count()) is not None and int(gpu[1]) >= there:
            yield f"there is no device {name!r}: this machine has {_gpus(there)}"


def _gpus(count: int) -> str:
    return {0: "no GPU", 1: "cuda:0 only"}.get(count, f"cuda:0 to cuda:{count - 1}")
