"""The worker daemon: starts, watches and ends actor processes (paper §4.3)."""
