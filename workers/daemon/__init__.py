"""The worker's daemon: one a node; opens and closes executors as the head says."""
