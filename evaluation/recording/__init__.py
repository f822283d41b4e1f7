"""Measures what recording for an exact replay costs."""
