"""One device between several learners: what its hand-over costs, how busy it is, and how fast."""
