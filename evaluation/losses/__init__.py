"""Losses of ours beside those of other libraries."""
