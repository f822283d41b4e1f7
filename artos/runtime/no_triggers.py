"""What stands in a table of triggers, or inside one of them, where a trigger belongs."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Any

_A_TRIGGER = re.compile(r"(<class ')?([\w.]+\.)?Trigger('>)?( \| None)?")
"""How an argument is annotated that is a trigger, as text or as a class."""


def no_triggers(table: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with each row that is no trigger, or is made of something that is none."""
    for target, trigger in table.items():
        where = f"triggers[{target!r}]"
        if isinstance(trigger, type):
            yield f"{where} is the class {trigger.__name__}: write {trigger.__name__}(...)"
        elif not _is_trigger(trigger):
            yield f"{where} is a {type(trigger).__name__}, not a Trigger"
        else:
            yield from (f"{where}: {fault}" for fault in _inside(trigger))


def _is_trigger(value: Any) -> bool:
    needed = ("check", "encode", "parts")  # this package knows no class of trigger
    return not isinstance(value, type) and all(hasattr(value, name) for name in needed)


def _inside(trigger: Any) -> Iterator[str]:
    """The same of a trigger's arguments that are to be triggers, however deep."""
    for field in dataclasses.fields(trigger) if dataclasses.is_dataclass(trigger) else ():
        said, value = str(field.type), getattr(trigger, field.name, None)
        if not (field.init and _A_TRIGGER.fullmatch(said)):
            continue
        if _is_trigger(value):
            yield from _inside(value)
        elif value is not None or "None" not in said:
            who = type(trigger).__name__
            yield (
                f"{value!r} is no trigger: the {field.name} of {who} is one, as in "
                f'{who}({field.name}=ObjectKeyTrigger("model_param"))'
            )
