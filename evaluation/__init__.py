"""The benchmark suite: ARTOS and its baselines in the same run; tables, JSON and figures."""
