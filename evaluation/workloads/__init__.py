"""Workloads that only the benchmarks run, each named by its file, like a user's workload."""
