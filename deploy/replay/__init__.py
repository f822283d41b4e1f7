"""Repeats a recorded run in this process, version by version."""
