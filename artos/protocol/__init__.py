"""Everything that processes of ours say to each other, and how it is written and read."""
