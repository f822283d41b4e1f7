"""Goals that an environment shows: what is to be reached, and what was."""

from __future__ import annotations

from collections.abc import Iterable

from artos.specs.keys import OBSERVATIONS

GOALS = frozenset(f"{OBSERVATIONS}.{name}" for name in ("achieved_goal", "desired_goal"))


def goal_words(keys: Iterable[str]) -> str:
    """A note on observations with these data keys, if they show goals; else empty."""
    if not {*keys} >= GOALS:
        return ""
    return (
        "parts like any other, which the policy sees; none is relabelled afterwards (HER): "
        'docs/how-to/environments.md, "Goals", says how'
    )
