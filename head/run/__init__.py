"""The process of one run: its coordinator, its records, and everything that serves its members."""
