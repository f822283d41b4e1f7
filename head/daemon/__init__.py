"""The head's daemon: knows nodes and runs, and brings them together (paper §4.1)."""
