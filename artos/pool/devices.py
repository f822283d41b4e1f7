"""Devices by the names that users give: ``cuda:0``, or ``cpu:NAME`` for turns on the CPU."""

from __future__ import annotations

import logging
import os
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

from artos.pool import records
from artos.pool.pool import Pool
from artos.pool.resources import Resource
from artos.system import gpus

DEVICE = "device"
"""The kind of these resources."""
CPU_DEVICE = "cpu:"
VARIABLE = "ARTOS_DEVICES"
"""Names the devices that runs without daemons lease, as in ``cuda:0=2,cpu:a``."""
_MOST = records.RESOURCES // 2
"""Devices on one machine: the pool's other records are for the slots of its CPUs."""
_GPU, _CPU = re.compile(r"cuda:(\d{1,3})"), re.compile(r"cpu:[A-Za-z0-9][A-Za-z0-9._-]*")
_log = logging.getLogger(__name__)


def device_resource(name: str, uuid: str = "", share: int = 1) -> Resource:
    """A device of this machine as a resource; a GPU with its memory and UUID, if they are known.

    A caller that has CUDA loaded gives the GPU's UUID, as CUDA may number GPUs in its own order.
    """
    if not (gpu := _GPU.fullmatch(name)):
        return Resource(name, DEVICE, share)
    uuid = uuid or gpus.uuid_of(int(gpu[1]))
    memory_mb = gpus.memory_mb(int(gpu[1]), uuid)
    try:  # some libraries write a GPU- or MIG- before it
        uuid = str(UUID(uuid.removeprefix("GPU-").removeprefix("MIG-")))
    except ValueError:
        uuid = ""
    return Resource(name, DEVICE, share, memory_mb, uuid)


@contextmanager
def lent(text: str, name: str) -> Iterator[None]:
    """Have these devices in this machine's pool within the block; ``device_faults`` found none.

    That GPUs exist was checked without torch, or a warning says that it could not be.

    Raises:
        PoolRefused: other processes know one of them differently.
        PoolFull, PoolVersion, PoolStuck, NotOurs: as ``Pool.join``.
    """
    if not (listed := _listed(text)):
        yield
        return
    wanted = [each for each, _ in listed if _GPU.fullmatch(each)]
    if wanted and gpus.count() is None:
        _log.warning(
            "whether there is %s cannot be checked here: there is neither the library of NVIDIA's "
            "driver (libnvidia-ml.so.1) nor /dev/nvidia0", ", ".join(wanted),
        )  # fmt: skip
    elif wanted and not gpus.told_apart():
        _log.warning(
            "the memory of %s is not counted: GPUs of several models are here, and only CUDA knows "
            "in which order it takes them; set CUDA_DEVICE_ORDER=PCI_BUS_ID, here and for runs",
            ", ".join(wanted),
        )
    with Pool.join(device_resources(text), name=name):
        yield


def device_resources(text: str) -> list[Resource]:
    """The devices that a user lists, in which ``device_faults`` found nothing wrong."""
    return [device_resource(each, share=int(share)) for each, share in _listed(text)]


def own_devices() -> str:
    """The devices that ``ARTOS_DEVICES`` lists, "" if none."""
    return os.environ.get(VARIABLE, "").strip()


def places(text: str) -> int:
    """How many learners can have one of the devices that a user lists at the same time."""
    return sum(seats(text).values())


def seats(text: str) -> dict[str, int]:
    """For each device that a user lists, how many learners can have it at the same time."""
    return {name: int(share) for name, share in _listed(text) if share.isdecimal()}


def _listed(text: str) -> list[tuple[str, str]]:
    """Names and shares, as written: ``cuda:0=2`` is for two learners at once."""
    parts = [name.strip().partition("=") for name in text.split(",")] if text else []
    return [(name.strip(), share.strip() if equals else "1") for name, equals, share in parts]


def device_faults(text: str) -> Iterator[str]:
    """What is wrong with the devices that a user lists, as in ``cuda:0=2,cpu:a``."""
    listed = _listed(text)
    if len(listed) > _MOST:
        yield f"{len(listed):,} devices are listed: {_MOST} at most are lent on one machine"
        return
    for name, times in Counter(name for name, _ in listed).items():
        gpu = _GPU.fullmatch(name)
        if not (gpu or _CPU.fullmatch(name)) or len(name) > records.NAME_BYTES:
            yield f"unknown device {name!r}: write cuda:N, or cpu:NAME with a name of your own"
        elif times > 1:
            yield f"device {name!r} is listed {times} times: once is enough"
        elif gpu and (there := gpus.count()) is not None and int(gpu[1]) >= there:
            have = {0: "no GPU", 1: "cuda:0 only"}.get(there, f"cuda:0 to cuda:{there - 1}")
            yield f"there is no device {name!r}: this machine has {have}"
    for name, share in listed:
        if not (share.isascii() and share.isdecimal() and 1 <= int(share) <= records.SEATS):
            yield (
                f"device {name!r} is for {share!r} learners at once: write {name}=2 for two, with "
                f"a number from 1 to {records.SEATS}"
            )
