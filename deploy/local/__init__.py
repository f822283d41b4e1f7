"""Runs of this machine: with processes of its own, or all in one process."""
