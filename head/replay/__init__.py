"""A replay process of a run: takes in what transfer agents ship, hands out weights."""
