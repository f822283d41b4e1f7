"""The centre: actor data blocks and the model block in shared memory (paper §4.2, Figure 9)."""
