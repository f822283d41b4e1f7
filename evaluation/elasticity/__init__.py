"""The costs of starting, parking and bringing back actors, and of changing their number."""
