"""Policies: PyTorch modules for the learner, and fast twins of them for actors."""
