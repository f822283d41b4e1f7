"""Trigger tables as plain data: how triggers travel from registration to the engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

import msgspec

import triggers
from artos.errors import Refused
from triggers.base import Trigger

Table = dict[str, Trigger]
_NUMBERS = (int, float, int | None, float | None)


def decode_table(encoded: Mapping[str, Mapping[str, Any]], load: Callable[[str], Any]) -> Table:
    """Rebuild the triggers of a plan, target by target, in order.

    ``load`` imports a user's trigger class (``file.py:Class``).

    Raises:
        Refused: a trigger that cannot be built; all faults at once.
    """
    table, faults = {}, []
    for target, data in encoded.items():
        try:
            table[target] = decode_trigger(data, load)
        except (
            TypeError, ValueError, ArithmeticError, LookupError, AttributeError, ImportError,
        ) as error:  # fmt: skip
            faults.append(f"triggers[{target!r}]: {error}")
    if faults:
        raise Refused(faults)
    return table


def decode_trigger(data: Mapping[str, Any], load: Callable[[str], Any]) -> Trigger:
    """Rebuild one trigger and its parts."""
    home, _, name = str(data["type"]).rpartition(":")
    if not home.startswith("triggers."):
        cls = load(f"{home}:{name}")
    elif name in triggers.__all__:
        # By its public name: a record of an earlier version may name a module where it once stood.
        cls = getattr(triggers, name)
    else:
        raise LookupError(f"triggers has no {name}")
    fields = {k: _decode_field(v, load) for k, v in data["fields"].items()}
    for key, kind in get_type_hints(cls).items() if home.startswith("triggers.") else ():
        if kind in _NUMBERS and key in fields:
            try:
                fields[key] = msgspec.convert(fields[key], kind)
            except msgspec.ValidationError as error:
                raise TypeError(f"{key}: {str(error).lower()}") from error
    trigger = cls(**fields)
    if not isinstance(trigger, Trigger):
        raise TypeError(f"{name} is not a Trigger: subclass triggers.Trigger")
    return trigger


def _decode_field(value: Any, load: Callable[[str], Any]) -> Any:
    if isinstance(value, Mapping) and set(value) == {"type", "fields"}:
        return decode_trigger(value, load)
    if isinstance(value, list):
        return tuple(_decode_field(item, load) for item in value)
    return value
