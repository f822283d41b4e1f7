"""What a reader of actors' blocks sees of their writers, which decides what it reads."""

from __future__ import annotations

ROWS, RESERVED, TERMS, RESERVED_OF_KEY = range(4)
"""How far each has written, and has reserved; which process it is; how far one has reserved a key.
"""
