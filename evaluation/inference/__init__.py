"""Central inference: what it costs to ask, and what it brings."""
