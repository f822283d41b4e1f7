"""Actors: the sampling role, as run in actor processes."""

from artos.actors.rollout import RolloutActor

__all__ = ["RolloutActor"]
