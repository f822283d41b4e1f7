"""Algorithms: each is a file with its settings, its update and its table (paper Table 3)."""

import pkgutil

_SHARED = ("defaults", "pipelined_ppo", "pipelines", "replaying", "separate")
"""Files that several algorithms are made of."""

BUILT_IN = {
    name: f"triggers.algorithms.{name}:workload"
    for _, name, _ in pkgutil.iter_modules(__path__)
    if name not in _SHARED
}
"""Algorithms that ``artos run`` knows by name: whatever file stands here."""
