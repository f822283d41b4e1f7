"""Fields of a JSON schema become values with a space each, or a reason why not."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from artos.envs.json_values import Value, values_of
from artos.envs.shown import Mismatch

NUMBER = {"type": "number"}


def one(field: dict[str, Any], size: Any = None, **definitions: Any) -> Value | str:
    """The only value of an object with the field ``x``, or why it has none."""
    schema = {"properties": {"x": field}, "$defs": definitions}
    values, faults = values_of(schema, {} if size is None else {"x": size})
    assert len(values) + len(faults) == 1
    return values[0] if values else faults["x"]


def array(items: Any, **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **more}


def of(length: int, items: Any) -> dict[str, Any]:
    return array(items, minItems=length, maxItems=length)


@pytest.mark.parametrize(
    ("field", "space"),
    [
        (NUMBER, spaces.Box(-np.inf, np.inf, (), np.float32)),
        ({**NUMBER, "minimum": -1, "maximum": 2.5}, spaces.Box(-1, 2.5, (), np.float32)),
        ({"type": "integer", "minimum": 0, "exclusiveMaximum": 9}, spaces.Box(0, 8, (), np.int64)),
        (
            {"type": "integer", "exclusiveMinimum": -0.5, "maximum": 7.5},
            spaces.Box(0, 7, (), np.int64),
        ),
        ({"type": "integer"}, spaces.Box(-(2**63), 2**63 - 1, (), np.int64)),
        ({"type": "boolean"}, spaces.Discrete(2)),
        ({"enum": ["a", "b", "c"], "type": "string"}, spaces.Discrete(3)),
        ({"const": "only"}, spaces.Discrete(1)),
        ({"type": "string"}, spaces.Text(2**20)),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, spaces.Text(2**20)),
        (
            {"anyOf": [{"type": "integer"}, {"type": "boolean"}]},
            spaces.Box(-np.inf, np.inf, (), np.float32),
        ),
        (of(2, of(3, NUMBER)), spaces.Box(-np.inf, np.inf, (2, 3), np.float32)),
        (of(4, {"type": "boolean"}), spaces.MultiBinary((4,))),
        (of(2, {"enum": [5, 7, 9]}), spaces.MultiDiscrete([3, 3])),
        (
            {"type": "array", "prefixItems": [NUMBER, NUMBER], "minItems": 2, "maxItems": 2},
            spaces.Box(-np.inf, np.inf, (2,), np.float32),
        ),
    ],
)
def test_a_field_and_its_space(field: dict[str, Any], space: Any) -> None:
    value = one(field)
    assert isinstance(value, Value), value
    assert value.space == space


@pytest.mark.parametrize(
    ("field", "why"),
    [
        (array(NUMBER), "a list of any length"),
        (array(NUMBER, minItems=1, maxItems=3), "a list of any length"),
        (of(2, {"type": "string"}), "a list of texts"),
        ({"type": "object", "additionalProperties": True}, "none of number, boolean"),
        ({"anyOf": [NUMBER, {"type": "null"}]}, "none of number, boolean"),
        ({"type": "array", "prefixItems": [NUMBER, {"type": "boolean"}]}, "of several kinds"),
        ({"$ref": "#/$defs/Gone"}, "which the schema lacks"),
        ({"$ref": "#/$defs/Loop"}, "by way of itself"),
        ({**NUMBER, "minimum": "low"}, "its minimum is 'low'"),
        ("nonsense", "no JSON schema"),
        ({"enum": list(range(1001))}, "at most 1000"),
    ],
)
def test_why_a_field_has_no_value(field: Any, why: str) -> None:
    found = one(field, Loop={"$ref": "#/$defs/Loop"})
    assert isinstance(found, str), found
    assert why in found


def test_objects_within_objects_are_values_by_path() -> None:
    point = {"properties": {"x": NUMBER, "colour": {"enum": ["red", "blue"]}}}
    schema = {"properties": {"at": {"$ref": "#/$defs/Point"}}, "$defs": {"Point": point}}
    values, faults = values_of(schema, {})
    assert [(value.name, value.kind) for value in values] == [
        ("at.x", "number"),
        ("at.colour", "choice"),
    ]
    assert not faults
    tree = {"properties": {"left": {"$ref": "#/$defs/Tree"}}}
    _, faults = values_of({**tree, "$defs": {"Tree": tree}}, {})
    assert [*faults.values()] == ["an object within 8 others"]


def test_sizes_that_the_schema_does_not_say() -> None:
    board = one(array(array(NUMBER)), [6, 7])
    assert isinstance(board, Value)
    assert board.shape == (6, 7)
    moves = one(array({"type": "integer"}), [2, 3])
    assert isinstance(moves, Value)
    assert moves.chosen().space == spaces.MultiDiscrete([3, 3])
    move = one({"type": "integer"}, 3)
    assert isinstance(move, Value)
    assert move.chosen().choices == (0, 1, 2)
    assert one(NUMBER, 3) == "of fewer sizes than 3"


def test_whole_numbers_that_cannot_be_chosen() -> None:
    with pytest.raises(TypeError, match="without bounds"):
        Value(("x",), "whole", low=0).chosen()
    with pytest.raises(TypeError, match="1000 choices are the most"):
        Value(("x",), "whole", low=0, high=1000).chosen()
    with pytest.raises(TypeError, match="1000 choices are the most"):
        Value(("x",), "whole", low=1, high=0).chosen()


def test_what_is_read_and_what_is_said() -> None:
    colours = Value(("x",), "choice", (2,), choices=("red", "blue"))
    assert colours.shown(["blue", "red"]) == [1, 0]
    assert colours.said([1.0, 0.0]) == ["blue", "red"]
    with pytest.raises(Mismatch, match=r"observations.x: 'green' is none of \['red', 'blue'\]"):
        colours.shown(["green", "red"])
    number = Value(("x",), "number", low=0, high=0.1)
    assert number.said([np.float32(0.1)]) == 0.1  # as float32 it is a little more
    grid = Value(("x",), "number", (2, 2), low=-math.inf, high=math.inf)
    assert grid.said([1, 2, 3, 4]) == [[1.0, 2.0], [3.0, 4.0]]
