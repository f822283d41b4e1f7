"""The decisions of a run: which actors sample, what the learner learns from, and restarts."""
