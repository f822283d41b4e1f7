"""Goals that an environment shows: what is to be reached, and what was."""

from __future__ import annotations

from collections.abc import Iterable

from artos.specs.keys import ACHIEVED_KEY, DESIRED_KEY


def goal_words(keys: Iterable[str]) -> str:
    """A note on observations with these data keys, if they show goals; else empty."""
    if not {*keys} >= {ACHIEVED_KEY, DESIRED_KEY}:
        return ""
    return (
        "parts like any other, which the policy sees; algorithms that learn from replay relabel "
        'a share of them afterwards with her=0.8: docs/how-to/environments.md, "Goals"'
    )
