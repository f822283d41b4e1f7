"""What a trigger costs."""
