"""GRPO on tokens beside a reference in one process."""
