"""NVIDIA's GPUs of this machine, by their driver's library (NVML): for processes without torch.

NVML counts GPUs by PCI bus. ``cuda:N`` counts those that ``CUDA_VISIBLE_DEVICES`` names, in the
order of ``CUDA_DEVICE_ORDER``: unless that says ``PCI_BUS_ID``, the fastest come first, and only
CUDA knows which of several models is faster. A process that has CUDA loaded gives the GPU's UUID.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

_VISIBLE, _ORDER, _BY_BUS = "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "PCI_BUS_ID"
_PREFIX = "GPU-"
_Answer = TypeVar("_Answer")


def count() -> int | None:
    """How many GPUs this process may use, as ``cuda:N`` counts them; None if that is unknown."""
    if (found := _asked(lambda nvml: len(_visible(nvml)))) is not None:
        return found
    named = _named()
    return len([*Path("/dev").glob("nvidia[0-9]*")]) or None if named is None else len(named)


def told_apart() -> bool:
    """False if only CUDA knows which GPU each ``cuda:N`` is."""
    return None not in (_asked(_visible) or [])


def memory_mb(number: int, uuid: str = "") -> int:
    """The memory of ``cuda:number`` in MB, or of the GPU with that UUID; 0 if that is unknown."""

    def total(nvml: Any) -> int:
        handle = _handle(nvml, number, uuid)
        return 0 if handle is None else int(nvml.nvmlDeviceGetMemoryInfo(handle).total) >> 20

    return _asked(total) or 0


def uuid_of(number: int) -> str:
    """The UUID of ``cuda:number``, "" if that is unknown."""

    def asked(nvml: Any) -> str:
        handle = _handle(nvml, number, "")
        return "" if handle is None else str(nvml.nvmlDeviceGetUUID(handle))

    return _asked(asked) or ""


def own_bytes(uuid: str) -> int | None:
    """Bytes that this process has of a GPU's memory, with its CUDA context; None if unknown.

    In a container NVML may not know processes by the numbers that they have there.
    """

    def taken(nvml: Any) -> int | None:
        running = nvml.nvmlDeviceGetComputeRunningProcesses(_handle(nvml, 0, uuid))
        return next((each.usedGpuMemory for each in running if each.pid == os.getpid()), None)

    return _asked(taken)


def busy_percent(number: int, uuid: str = "") -> int | None:
    """For how much of the last second, or less, a GPU computed; None if that is unknown."""

    def share(nvml: Any) -> int | None:
        handle = _handle(nvml, number, uuid)
        return None if handle is None else int(nvml.nvmlDeviceGetUtilizationRates(handle).gpu)

    return _asked(share)


def busy_samples(uuid: str, since: float) -> list[tuple[float, float]]:
    """When the driver sampled a GPU after ``since``, and for which share of the time it computed.

    In seconds since the epoch, and between 0 and 1. Empty if that is unknown.
    """

    def asked(nvml: Any) -> list[tuple[float, float]]:
        kind = nvml.NVML_GPU_UTILIZATION_SAMPLES
        _, found = nvml.nvmlDeviceGetSamples(_handle(nvml, 0, uuid), kind, int(since * 1e6))
        return [(each.timeStamp / 1e6, each.sampleValue.uiVal / 100) for each in found]

    return _asked(asked) or []


def _asked(question: Callable[[Any], _Answer]) -> _Answer | None:
    """The driver's answer; None if there is no driver, or it has none."""
    if (nvml := _nvml()) is None:
        return None
    try:
        return question(nvml)
    except nvml.NVMLError:
        return None


def _handle(nvml: Any, number: int, uuid: str) -> Any:
    if uuid:
        return _by_uuid(nvml, _all(nvml), uuid)
    return dict(enumerate(_visible(nvml))).get(number)


def _all(nvml: Any) -> list[Any]:
    return [nvml.nvmlDeviceGetHandleByIndex(n) for n in range(nvml.nvmlDeviceGetCount())]


def _visible(nvml: Any) -> list[Any]:
    """Handles in the order of ``cuda:N``; None is one that cannot be told from others."""
    there = _all(nvml)
    alike = len({nvml.nvmlDeviceGetName(each) for each in there}) < 2
    ordered = there if alike or os.environ.get(_ORDER) == _BY_BUS else [None] * len(there)
    if (named := _named()) is None:
        return ordered
    found = []
    for name in named:
        if not name.isdecimal():
            found.append(_by_uuid(nvml, there, name))
            if found[-1] is None:
                return found[:-1]  # as in CUDA, names after an unknown one are not used
        elif int(name) < len(there):
            found.append(ordered[int(name)])
        else:
            return found
    return found


def _by_uuid(nvml: Any, there: list[Any], name: str) -> Any:
    """The GPU with this UUID, which may be cut short or lack its ``GPU-``; or a part (MIG) of one.

    None if there is none.
    """
    for handle in there:
        uuid = nvml.nvmlDeviceGetUUID(handle)
        if uuid.startswith(name) or uuid.removeprefix(_PREFIX) == name:
            return handle
    try:
        return nvml.nvmlDeviceGetHandleByUUID(name)
    except nvml.NVMLError:
        return None


def _named() -> list[str] | None:
    """Numbers and UUIDs of the GPUs that this process is restricted to; None if it is not."""
    text = os.environ.get(_VISIBLE)
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


@functools.cache
def _nvml() -> Any:
    """The library, None without a driver."""
    import pynvml  # noqa: PLC0415  # few processes ask

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    return pynvml
