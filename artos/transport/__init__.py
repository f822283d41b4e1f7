"""Edges between nodes, named after what flows: control, experience, weights."""
