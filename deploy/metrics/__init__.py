"""Metrics of runs and nodes for Prometheus, from what a head or a folder of runs tells."""
