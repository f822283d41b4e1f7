"""Actors of a run that live on worker nodes (paper §4.1, §4.3)."""
