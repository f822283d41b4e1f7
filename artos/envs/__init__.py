"""Environments: what they are in plain data, how they are made, how they are stepped."""
