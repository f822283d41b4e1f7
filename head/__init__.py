"""The processes of the head node, and the records of runs (paper §4.1)."""
