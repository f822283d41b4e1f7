"""What it takes to start, park and bring back actors, and to change their number."""
