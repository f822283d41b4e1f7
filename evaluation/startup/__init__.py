"""The start-up time of a run, and the time of a short run."""
