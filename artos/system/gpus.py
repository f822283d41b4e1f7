"""NVIDIA's GPUs of this machine, by the library of their driver: for processes without torch."""

from __future__ import annotations

import ctypes
import functools
import os
from pathlib import Path
from typing import Any

_VISIBLE = "CUDA_VISIBLE_DEVICES"


class _Memory(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_ulonglong) for name in ("total", "free", "used"))


def count() -> int | None:
    """How many GPUs this process may use, as ``cuda:N`` counts them; None if nobody knows."""
    if (named := _named()) is not None:
        return len(named)
    found = ctypes.c_uint()
    if (nvml := _nvml()) is not None and nvml.nvmlDeviceGetCount_v2(ctypes.byref(found)) == 0:
        return found.value
    return len([*Path("/dev").glob("nvidia[0-9]*")]) or None


def memory_mb(number: int) -> int:
    """The memory of ``cuda:number`` in MB; 0 if nobody knows."""
    nvml, memory, handle = _nvml(), _Memory(), ctypes.c_void_p()
    if nvml is None or not _find(nvml, number, handle):
        return 0
    if nvml.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)) != 0:
        return 0
    return int(memory.total) >> 20


def _find(nvml: Any, number: int, handle: ctypes.c_void_p) -> bool:
    named = _named()
    if named is not None and number >= len(named):
        return False
    name = str(number) if named is None else named[number]
    if name.isdecimal():
        refused = nvml.nvmlDeviceGetHandleByIndex_v2(int(name), ctypes.byref(handle))
    else:
        refused = nvml.nvmlDeviceGetHandleByUUID(name.encode(), ctypes.byref(handle))
    return int(refused) == 0


def _named() -> list[str] | None:
    """Numbers and UUIDs of GPUs that this process is restricted to; None: it is not."""
    text = os.environ.get(_VISIBLE)
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


@functools.cache
def _nvml() -> Any:
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None
    return nvml if nvml.nvmlInit_v2() == 0 else None
