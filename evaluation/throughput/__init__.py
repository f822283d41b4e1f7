"""Environment steps a second of the whole training loop."""
