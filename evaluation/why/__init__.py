"""Runs with a planted bottleneck each: whether `artos why` names it, and what its advice gains."""
