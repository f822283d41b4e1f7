"""Targets and losses: pure functions over arrays and tensors."""
