"""Devices as users name them: ``cuda:0``, or ``cpu:NAME`` for turns on the CPU."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterator

from artos.errors import Refused
from artos.pool import records
from artos.pool.resources import Resource
from artos.system import gpus

DEVICE = "device"
"""The kind of these resources."""
CPU_DEVICE = "cpu:"
_GPU, _CPU = re.compile(r"cuda:(\d{1,3})"), re.compile(r"cpu:[A-Za-z0-9][A-Za-z0-9._-]*")
_log = logging.getLogger(__name__)


def device_resource(name: str) -> Resource:
    """A device of this machine as a resource, with the memory that a GPU has, if that is known."""
    gpu = _GPU.fullmatch(name)
    return Resource(name, DEVICE, memory_mb=gpus.memory_mb(int(gpu[1])) if gpu else 0)


def devices_of(text: str) -> list[Resource]:
    """The devices that a user lists, as in ``cuda:0,cpu:a``; none if the text is empty.

    That a GPU exists is checked without torch, or a warning says that it could not be.

    Raises:
        Refused: lists all faults at once.
    """
    names = [name.strip() for name in text.split(",")] if text else []
    if faults := [*_faults(names)]:
        raise Refused(faults)
    wanted = [name for name in names if _GPU.fullmatch(name)]
    if wanted and gpus.count() is None:
        _log.warning(
            "whether %s exist cannot be checked here: there is neither the library of NVIDIA's "
            "driver (libnvidia-ml.so.1) nor /dev/nvidia0", ", ".join(wanted),
        )  # fmt: skip
    return [device_resource(name) for name in names]


def _faults(names: list[str]) -> Iterator[str]:
    for name, times in Counter(names).items():
        gpu = _GPU.fullmatch(name)
        if not (gpu or _CPU.fullmatch(name)) or len(name) > records.NAME_BYTES:
            yield f"unknown device {name!r}: write cuda:N, or cpu:NAME with a name of your own"
        elif times > 1:
            yield f"device {name!r} is listed {times} times: once is enough"
        elif gpu and (there := gpus.count()) is not None and int(gpu[1]) >= there:
            yield f"there is no device {name!r}: this machine has {_gpus(there)}"


def _gpus(count: int) -> str:
    return {0: "no GPU", 1: "cuda:0 only"}.get(count, f"cuda:0 to cuda:{count - 1}")
