"""Off-policy learning: learner and actors at the same time."""
