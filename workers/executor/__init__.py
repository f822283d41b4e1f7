"""The executor of a run on a node: its actors, their shared memory, its transfer agent."""
