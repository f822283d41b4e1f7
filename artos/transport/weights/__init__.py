"""Ways of weights from a learner to those who act with them, a file each."""
