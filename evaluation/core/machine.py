"""The machine that figures were measured on: without it a number means nothing."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Sequence
from pathlib import Path

import psutil


def machine() -> dict[str, str | int | float]:
    """CPU model, cores, RAM in GB, kernel, Python, and the load average of the last minute."""
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "ram_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "kernel": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "load_before": round(os.getloadavg()[0], 2),
    }


def has_bfloat16() -> bool:
    """Whether the CPU multiplies bfloat16 by instructions of its own."""
    return not {"avx512_bf16", "amx_bf16"}.isdisjoint(Path("/proc/cpuinfo").read_text().split())


def versions(packages: Sequence[str] = ("artos", "torch", "numpy", "gymnasium")) -> dict[str, str]:
    """Versions of installed packages; those that are not installed are left out."""
    found = {}
    for name in packages:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or "unknown"
