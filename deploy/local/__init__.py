"""Runs on this machine: in several processes, or all in one process."""
