"""The user's side of a cluster: what is sent to a head, and what its answers look like."""
