"""The transfer agent of a site: ships rows from the cache buffer, fetches weights."""
