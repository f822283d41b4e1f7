"""Checks a table of triggers before anything is started, and reports every fault at once."""
