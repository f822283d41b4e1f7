"""The head daemon: keeps track of nodes and runs, and places runs on nodes (paper §4.1)."""
