"""The worker daemon: one per node; opens and closes executors as the head daemon orders."""
