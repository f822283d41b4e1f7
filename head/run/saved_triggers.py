"""What triggers remember (``Trigger.kept``) where the rest of the run begins anew, in a checkpoint.

It is saved by target, and there by a checksum of each trigger that the target's is made of: one
that was changed since, or put around others, begins anew, and those others go on.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from xxhash import xxh3_64_hexdigest

from artos.system.snapshot import put_back
from head.run.saved_books import inside
from triggers.base import Trigger
from triggers.remembering import NOTHING, text_of

Remembered = dict[str, dict[str, str]]
_LIVE = "max_lag"
"""What ``artos set`` changes of a trigger while it lives: one with another is the same trigger."""


def remembered(table: Mapping[str, Trigger]) -> tuple[Remembered, list[str]]:
    """What the triggers of these targets remember, and what of it cannot be saved, for people."""
    found, lacks = Remembered(), list[str]()
    for target, trigger in table.items():
        for key, part in _parts(trigger):
            try:
                text = text_of(part)
            except Exception as error:  # whatever triggers of users hold
                lacks.append(f"what {part.name} of {target} remembers: {error}")
                continue
            if text not in NOTHING:
                found.setdefault(target, {})[key] = text
    return found, lacks


def go_on(table: Mapping[str, Trigger], saved: Mapping[str, Mapping[str, str]]) -> None:
    """Have triggers go on from what they remembered when the run was saved."""
    for target, of_it in saved.items():
        for key, part in _parts(table[target]) if target in table else ():
            if key in of_it:
                put_back(part, json.loads(of_it[key]))


def anew(table: Mapping[str, Trigger], saved: Mapping[str, Mapping[str, str]]) -> list[str]:
    """The targets whose triggers were changed since they were saved, for people."""
    return [
        f"what the trigger of {target} remembers: it was changed, and begins anew"
        for target, of_it in saved.items()
        if target in table and of_it.keys() - dict(_parts(table[target])).keys()
    ]


def _parts(trigger: Trigger) -> Iterator[tuple[str, Trigger]]:
    """Those that it is made of, each with its checksum and a number that tells equal ones apart."""
    seen = Counter[str]()
    for part in inside(trigger):
        checksum = xxh3_64_hexdigest(msgspec.json.encode(_settled(part.encode())))
        seen[checksum] += 1
        yield f"{checksum}.{seen[checksum]}", part


def _settled(plain: Any) -> Any:
    if not isinstance(plain, dict):
        return plain
    return {name: _settled(value) for name, value in plain.items() if name != _LIVE}
