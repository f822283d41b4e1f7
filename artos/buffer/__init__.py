"""Actor data blocks and the model data block in shared memory (paper §4.2, Figure 9)."""
