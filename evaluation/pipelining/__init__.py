"""Rounds from actors to a learner, and weights back."""
