"""A run's journal as a trace, for viewers of timelines."""
