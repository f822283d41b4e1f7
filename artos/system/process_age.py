"""How long ago this process was started."""

from __future__ import annotations

import os
import time
from pathlib import Path

_START_TIME = 19
"""Field of /proc/self/stat behind the name, in ticks since the machine was booted."""


def age() -> float:
    """Seconds since this process was started, to a hundredth; that includes its imports."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    started = int(fields[_START_TIME]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started
