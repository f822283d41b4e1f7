"""Learning curves of more algorithms beside those of other libraries."""
