"""Learners: the consuming role, as run in learner processes."""
