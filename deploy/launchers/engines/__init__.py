"""One file for each engine; its class ``Engine`` is found by the file's name."""
