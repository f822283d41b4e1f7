"""What is set of a learner or an actor is of the type that its attribute has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from artos.specs.configuration import Changeable
from artos.specs.kinds import known_kinds


class Found:
    """Nothing says of which type its attributes are, but their values."""

    def __init__(self, **values: Any) -> None:
        vars(self).update(values)


@dataclass
class Annotated:
    value: float = 1


class Derived(Annotated):
    pass


class Given:
    def __init__(self, value: float = 1) -> None:
        self.value = value


@pytest.mark.parametrize(
    ("owner", "kind"),
    [
        (Found(value=3), "int"),
        (Found(value=np.int64(3)), "int"),
        (Found(value=True), "bool"),
        (Found(value=0.5), "float"),
        (Found(value=np.float32(0.5)), "float"),
        (Found(value="by a method"), "float"),
        (Found(), "float"),
        (Annotated(), "float"),
        (Derived(), "float"),
        (Given(), "float"),
    ],
)
def test_it_is_as_is_said_or_as_the_value_is(owner: object, kind: str) -> None:
    (found,) = known_kinds(owner, [Changeable("value", ge=0)])
    assert (found.name, found.ge, found.kind) == ("value", 0, kind)


def test_what_is_said_to_be_whole_is() -> None:
    (found,) = known_kinds(Found(value=0.5), [Changeable("value", kind="int")])
    assert found.kind == "int"
