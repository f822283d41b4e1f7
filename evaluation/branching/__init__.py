"""Measures what a continuation of a live actor's episode costs."""
