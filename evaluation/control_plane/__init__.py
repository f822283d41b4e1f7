"""What thousands of workers cost their head."""
