"""Hostile messages to every process of ours that listens."""
