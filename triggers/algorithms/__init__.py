"""Each algorithm as a trigger configuration (paper Table 3)."""

BUILT_IN = {
    "ppo": "triggers.algorithms.ppo:workload",
    "a2c": "triggers.algorithms.a2c:workload",
    "impala": "triggers.algorithms.impala:workload",
}
"""Algorithms that ``artos run`` knows by name."""
