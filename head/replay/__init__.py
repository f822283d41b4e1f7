"""A replay process of a run: receives rows from transfer agents, and sends them weights."""
