"""Our losses next to those of other libraries."""
