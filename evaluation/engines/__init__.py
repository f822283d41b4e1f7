"""Clusters that engines carry, beside daemons that are started by hand."""
