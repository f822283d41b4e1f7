"""A run in a terminal: the live view, its screens, and the curve at the end."""
