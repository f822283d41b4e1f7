"""The parts of every benchmark: contestants, reports and figures; and the registry."""
