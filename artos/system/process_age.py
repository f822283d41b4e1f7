"""How long ago this process was started."""

from __future__ import annotations

import os
import time

from artos.system.process_stat import ProcessStat


def age() -> float:
    """Seconds since this process was started, to a hundredth; that includes its imports."""
    started = ProcessStat.of("self").started / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started
