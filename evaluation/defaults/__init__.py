"""What the defaults reach, for whoever sets nothing."""
