"""How many asynchronous runs, disturbed at random, are replayed bit for bit."""
