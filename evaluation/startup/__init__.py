"""How soon a run begins and ends."""
