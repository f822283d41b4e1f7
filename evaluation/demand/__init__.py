"""Runs that come and go, on as many machines as they need."""
