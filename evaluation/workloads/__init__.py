"""Workloads that only the benchmarks run, each by its file, as a user's would be."""
