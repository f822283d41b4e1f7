"""Images of processes: taken, kept, moved and brought back to life (paper §3.3)."""
