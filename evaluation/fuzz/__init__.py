"""Fuzzing: hostile messages to every process of ARTOS that listens."""
