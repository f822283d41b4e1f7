"""What runs inside actor and learner processes: the only processes that run user code."""
