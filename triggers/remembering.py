"""What a trigger goes on with in a resumed run, as text."""

from __future__ import annotations

import json

from artos.system.snapshot import taken
from triggers.base import Trigger

NOTHING = ("{}", "[]")


def text_of(trigger: Trigger) -> str:
    """What it keeps, or what its ``snapshot`` gives, as JSON that is read as the same again.

    Unlike JSON's standard it has infinity and NaN.

    Raises:
        AttributeError: it has no such attribute.
        TypeError: it is no plain data, or would be read as something else.
    """
    held = taken(trigger)
    text = json.dumps(held)
    if _has_other_keys(held):
        raise TypeError("the keys of a dict must be strings")
    return text


def _has_other_keys(held: object) -> bool:
    if isinstance(held, dict):
        return any(not isinstance(k, str) or _has_other_keys(v) for k, v in held.items())
    return isinstance(held, list | tuple) and any(map(_has_other_keys, held))
