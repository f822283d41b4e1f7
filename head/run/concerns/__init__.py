"""What follows a run beside its coordinator, one concern a file."""
