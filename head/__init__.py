"""The head daemon: registers workloads, runs their triggers, keeps their records (paper §4.1)."""
