"""What a subclass has of its own."""

from __future__ import annotations


def has_own(kind: type, known: type, *methods: str) -> bool:
    """Whether a subclass of ``known`` has other ``methods`` than that."""
    return any(getattr(kind, name) is not getattr(known, name) for name in methods)
