"""Learning curves beside those of other libraries."""
