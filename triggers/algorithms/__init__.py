"""Each algorithm as a trigger configuration (paper Table 3)."""

BUILT_IN = {"ppo": "triggers.algorithms.ppo:workload"}
"""Algorithms that ``artos run`` knows by name."""
