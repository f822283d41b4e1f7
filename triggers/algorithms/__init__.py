"""Each algorithm as a trigger configuration (paper Table 3)."""

BUILT_IN = {
    name: f"triggers.algorithms.{name}:workload"
    for name in ("ppo", "a2c", "impala", "dqn", "sac", "td3")
}
"""Algorithms that ``artos run`` knows by name."""
