"""Every Python process that has this on its path lives with a clock that steps by hours."""

import random
import time

_time, _time_ns = time.time, time.time_ns
_hours = random.Random()


def _step() -> int:
    return 3600 * _hours.choice((-30, -5, -1, 0, 1, 5, 30))


time.time = lambda: _time() + _step()
time.time_ns = lambda: _time_ns() + _step() * 10**9
