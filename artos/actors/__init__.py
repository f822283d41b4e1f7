"""Actors: the sampling role, as run in actor processes."""
