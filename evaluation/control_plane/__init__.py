"""The cost of thousands of workers for their head."""
