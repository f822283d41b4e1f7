"""The transfer agent of an executor: ships rows from the cache buffer, fetches weights."""
