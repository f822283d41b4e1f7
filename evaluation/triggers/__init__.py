"""The latency of triggers."""
