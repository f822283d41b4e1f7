"""A run in a terminal: the live view, its pictures, and the curve at the end."""
