"""Values that a JSON schema declares, and the spaces of Gymnasium that hold them.

A value is a field of an object, or of an object within it. It is one number, one of a few choices,
or a list of such, of a length that is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from artos.envs.shown import Mismatch, Path
from artos.envs.spec import key_of

Schema = Mapping[str, Any]
Sizes = Mapping[str, int | Sequence[int]]
"""What a schema does not say of a field, by its name: the lengths of a list, and of what is within
it, then how many choices a whole number has.
"""

MOST = 1000
"""One value has at most this many choices."""
_DEEPEST = 8
_INT64 = np.iinfo(np.int64)
_TEXT = 2**20


@dataclass(frozen=True)
class Value:
    """One field: ``whole`` and ``number`` lie between ``low`` and ``high``, both among them."""

    path: Path
    kind: Literal["number", "whole", "choice", "text"]
    shape: tuple[int, ...] = ()
    low: float = -math.inf
    high: float = math.inf
    choices: tuple[Any, ...] = ()
    """Which values there are, as the schema writes them; empty for numbers."""

    @property
    def name(self) -> str:
        """The field's name, after those of the objects that hold it."""
        return ".".join(self.path)

    @property
    def space(self) -> gym.Space[Any]:
        """The space that holds it; that of a choice counts from 0."""
        match self.kind:
            case "number":
                low, high = np.float32(self.low), np.float32(self.high)
                return spaces.Box(low, high, self.shape, np.float32)
            case "whole":
                least = int(max(self.low, _INT64.min))
                most = _INT64.max if self.high >= 2**63 else int(self.high)
                return spaces.Box(least, most, self.shape, np.int64)
            case "text":
                return spaces.Text(_TEXT)
        if not self.shape:
            return spaces.Discrete(len(self.choices))
        if self.choices == (False, True):
            return spaces.MultiBinary(self.shape)
        return spaces.MultiDiscrete(np.full(self.shape, len(self.choices)))

    def chosen(self) -> Value:
        """The same value, of which one is chosen: whole numbers become choices.

        Raises:
            TypeError: they have no bounds, or too many lie between them.
        """
        if self.kind != "whole":
            return self
        if math.isinf(self.low) or math.isinf(self.high):
            raise TypeError(
                "a whole number without bounds: let the server declare ge and le, or say how many "
                "there are, counted from 0"
            )
        if not 1 <= self.high - self.low + 1 <= MOST:
            raise TypeError(
                f"a whole number in {self.low:.0f} … {self.high:.0f}, and {MOST} choices are the "
                "most: say how many there are, counted from 0"
            )
        choices = tuple(range(int(self.low), int(self.high) + 1))
        return replace(self, kind="choice", choices=choices)

    def shown(self, value: Any) -> Any:
        """A value that was read from JSON as its space has it.

        Raises:
            Mismatch: it is none of the choices.
        """
        if self.kind != "choice":
            return value
        if isinstance(value, list):
            return [self.shown(each) for each in value]
        if value not in self.choices:
            raise Mismatch(key_of(self.path), f"{value!r} is none of {list(self.choices)}")
        return self.choices.index(value)

    def said(self, flat: Sequence[Any]) -> Any:
        """Numbers of its space, those of a list one after another, as JSON has them."""
        if self.kind == "choice":
            each = [self.choices[int(index)] for index in flat]
        else:  # what is within bounds as float32 may be a little beyond them
            each = [min(max(float(number), self.low), self.high) for number in flat]
        array = np.empty(len(each), object)
        array[:] = each
        return array.reshape(self.shape).tolist() if self.shape else each[0]


def values_of(schema: Schema, sizes: Sizes) -> tuple[tuple[Value, ...], dict[str, str]]:
    """The values of an object in the order of its schema, and why other fields have none, by name.

    ``sizes`` completes and replaces what the schema says.
    """
    faults: dict[str, str] = {}
    return tuple(_walk(schema, (), schema.get("$defs", {}), sizes, faults)), faults


def _walk(
    node: Any, path: Path, definitions: Any, sizes: Sizes, faults: dict[str, str]
) -> Iterator[Value]:
    name = ".".join(path)
    try:
        node = _plain(node, definitions)
        if not isinstance(fields := node.get("properties"), Mapping):
            yield _read(path, node, definitions, sizes.get(name, ()))
            return
    except TypeError as error:
        faults[name] = str(error)
        return
    if len(path) == _DEEPEST:
        faults[name] = f"an object within {_DEEPEST} others"
        return
    for field, inner in fields.items():
        yield from _walk(inner, (*path, str(field)), definitions, sizes, faults)


def _read(path: Path, node: Schema, definitions: Any, given: int | Sequence[int]) -> Value:
    """The value of a field that is no object."""
    lengths = [given] if isinstance(given, int) else [*given]
    shape: tuple[int, ...] = ()
    while node.get("type") == "array":
        length, node = _length(node, lengths[0] if lengths else None)
        lengths, shape = lengths[1:], (*shape, length)
        node = _plain(node, definitions)
        if len(shape) > _DEEPEST:
            raise TypeError(f"a list within {_DEEPEST} others")
    value = _value(path, node)
    if lengths and value.kind == "whole":
        value = replace(value, low=0, high=lengths.pop(0) - 1)
    if lengths:
        raise TypeError(f"of fewer sizes than {given}")
    if value.kind == "text" and shape:
        raise TypeError("a list of texts")
    return replace(value, shape=shape)


def _plain(node: Any, definitions: Any) -> Schema:
    """What a part of a schema refers to, or wraps as the only alternative."""
    for _ in range(_DEEPEST):
        if not isinstance(node, Mapping):
            raise TypeError(f"declared as {node!r}, which is no JSON schema")
        if "$ref" in node:
            where = str(node["$ref"]).removeprefix("#/$defs/")
            if not isinstance(definitions, Mapping) or where not in definitions:
                raise TypeError(f"declared as {node['$ref']}, which the schema lacks")
            node = definitions[where]
        elif (several := node.get("anyOf") or node.get("oneOf") or node.get("allOf")) is not None:
            if not isinstance(several, list) or len(several) != 1:
                return _numbers(several) or node
            node = several[0]
        else:
            return node
    raise TypeError("declared by way of itself")


def _numbers(several: Any) -> Schema | None:
    """Numbers of several kinds as numbers, and texts that may be missing, which nobody reads."""
    kinds = {each.get("type") for each in several if isinstance(each, Mapping)}
    if kinds == {"string", "null"}:
        return {"type": "string"}
    return {"type": "number"} if kinds and kinds <= {"integer", "number", "boolean"} else None


def _length(node: Schema, given: int | None) -> tuple[int, Any]:
    """How long a list is, and what each of its elements is declared to be."""
    first = node.get("prefixItems")
    if isinstance(first, list) and first:
        if any(each != first[0] for each in first):
            raise TypeError("a list whose elements are of several kinds")
        return len(first), first[0]
    least, most = node.get("minItems"), node.get("maxItems")
    length = given if given is not None else least if least == most else None
    if not isinstance(length, int) or length < 1:
        raise TypeError(
            "a list of any length: let the server declare min_length and max_length, both the "
            "same, or say how long it always is"
        )
    return length, node.get("items", {})


def _value(path: Path, node: Schema) -> Value:
    """One value, from a schema that is neither an object's nor a list's."""
    kind = node.get("type")
    if "const" in node or "enum" in node:
        choices = node.get("enum", [node.get("const")])
        if not isinstance(choices, list) or not 1 <= len(choices) <= MOST:
            raise TypeError(f"an enum that is no list of at most {MOST}")
        return Value(path, "choice", choices=tuple(choices))
    if kind == "boolean":
        return Value(path, "choice", choices=(False, True))
    if kind == "string":
        return Value(path, "text")
    if kind in ("integer", "number"):
        low, high = _bound(node, "minimum", -math.inf), _bound(node, "maximum", math.inf)
        above = _bound(node, "exclusiveMinimum", -math.inf)
        below = _bound(node, "exclusiveMaximum", math.inf)
        if kind == "number":
            low = max(low, math.nextafter(above, math.inf) if math.isfinite(above) else above)
            high = min(high, math.nextafter(below, -math.inf) if math.isfinite(below) else below)
            return Value(path, "number", low=low, high=high)
        low = max(_whole(math.ceil, low), _whole(math.floor, above) + 1)
        high = min(_whole(math.floor, high), _whole(math.ceil, below) - 1)
        return Value(path, "whole", low=low, high=high)
    raise TypeError("none of number, boolean, enum, text, list of a known length, object of these")


def _bound(node: Schema, name: str, without: float) -> float:
    bound = node.get(name, without)
    if isinstance(bound, bool) or not isinstance(bound, int | float) or math.isnan(bound):
        raise TypeError(f"its {name} is {bound!r}")
    return float(bound)


def _whole(rounded: Callable[[float], int], bound: float) -> float:
    return rounded(bound) if math.isfinite(bound) else bound
