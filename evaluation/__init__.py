"""The benchmark suite: ours and the rivals in the same run, with tables, JSON and figures."""
