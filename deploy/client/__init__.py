"""The user's side of a cluster: requests to a head, and its answers as text."""
