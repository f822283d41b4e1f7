"""Access patterns of the buffer (paper Table 1): which rows a learner gets, and how."""
