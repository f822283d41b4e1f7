"""Hints for names that are nearly right."""

from __future__ import annotations

import difflib
from collections.abc import Sequence


def closest(name: str, known: Sequence[str]) -> str:
    """A hint ``": did you mean …?"`` naming the nearest known names, or an empty string."""
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    return f": did you mean {' or '.join(near)}?" if near else ""
