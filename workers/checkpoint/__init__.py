"""Images of processes: dumped, stored, moved and restored (paper §3.3)."""
