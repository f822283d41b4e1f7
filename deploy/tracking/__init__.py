"""Runs in experiment trackers: a process beside a run, or after it, sends what the run writes."""
