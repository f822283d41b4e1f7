"""Using what was trained: a run's policy to act with, to evaluate, and to export."""
