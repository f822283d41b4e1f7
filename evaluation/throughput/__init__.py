"""Environment steps per second of the whole training loop."""
