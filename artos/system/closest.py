"""Hints for names that are nearly right."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

_BEHIND = 0.2
"""How much less like a name than the nearest one others may be, of 1, to be named, too."""


def closest(name: str, known: Sequence[str]) -> str:
    """A hint ``": did you mean …?"`` naming the nearest known names, or an empty string."""
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    likeness = [difflib.SequenceMatcher(None, each, name).ratio() for each in near]
    near = [n for n, like in zip(near, likeness, strict=True) if like >= likeness[0] - _BEHIND]
    return f": did you mean {' or '.join(near)}?" if near else ""
