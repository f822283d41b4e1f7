"""Of which kind a number is that users may set: as its owner says, or as its value is."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import msgspec
import numpy as np

from artos.specs.configuration import Changeable, Kind

_VALUES: tuple[tuple[tuple[type, ...], Kind], ...] = (
    ((bool, np.bool_), "bool"),  # before int, which it is too
    ((int, np.integer), "int"),
    ((float, np.floating), "float"),
)
_SAID: Mapping[Any, Kind] = {
    int: "int", "int": "int", bool: "bool", "bool": "bool", float: "float", "float": "float",
}  # fmt: skip


def kind_of_value(value: Any) -> Kind | None:
    """The kind of a value; None if it is no number."""
    return next((kind for types, kind in _VALUES if isinstance(value, types)), None)


def known_kinds(owner: Any, changeable: Iterable[Changeable]) -> tuple[Changeable, ...]:
    """What may be set of a learner or an actor, each of the kind that its attribute is of.

    That is as its class annotates the attribute, or ``__init__`` an argument of its name, or else
    as its value is. What is said to be a whole number, or a bool, is one.
    """
    return tuple(
        msgspec.structs.replace(each, kind=_kind(owner, each.name) or "float")
        if each.kind == "float"
        else each
        for each in changeable
    )


def _kind(owner: Any, name: str) -> Kind | None:
    for cls in type(owner).__mro__:
        for where in (cls, vars(cls).get("__init__", cls)):
            with suppress(NameError):  # of another annotation
                if found := _SAID.get(inspect.get_annotations(where).get(name)):
                    return found
    return kind_of_value(getattr(owner, name, None))
