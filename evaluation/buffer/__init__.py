"""Rows per second in and out of replay buffers: ours and others'."""
