"""What a member hands over as it ends, and another process of it takes up."""

from __future__ import annotations

import random
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from artos.errors import CheckpointFault
from artos.runtime.held import Held, hand_over, take_up


class Role:
    """Holds something, and goes on with what another one held."""

    def __init__(self, held: Any = None) -> None:
        self.held = held

    def snapshot(self) -> Any:
        if isinstance(self.held, Exception):
            raise self.held
        return {"held": self.held}

    def go_on(self, found: Any) -> None:
        self.held = found["held"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "held-actors-0"


def test_the_next_process_has_it_with_its_random_streams_once(path: Path) -> None:
    random.seed(3)
    np.random.seed(4)  # the stream that users' environments draw from
    one: Any = Role([1, 2])
    hand_over(one, path)
    expected = random.random(), float(np.random.random())
    other: Any = Role()
    take_up(other, path)
    assert other.held == [1, 2]
    assert (random.random(), float(np.random.random())) == expected
    assert [*path.parent.iterdir()] == [], "a process that is started again later begins anew"
    third: Any = Role("its own")
    take_up(third, path)
    assert third.held == "its own"


@pytest.mark.parametrize(
    ("held", "why"),
    [(threading.Lock(), "cannot pickle"), (ValueError("no room there"), "ValueError: no room")],
)
def test_what_cannot_be_said_is_told_with_the_reason(held: Any, why: str, path: Path) -> None:
    role: Any = Role(held)
    hand_over(role, path)
    found = Held.read(path)
    assert found is not None
    assert why in found.why
    assert not found.data


def test_where_there_is_no_room_it_says_nothing(path: Path) -> None:
    role: Any = Role(1)
    hand_over(role, path / "no folder" / "held")
    assert [*path.parent.iterdir()] == []
    assert Held.read(path) is None


def test_half_a_file_is_none(path: Path) -> None:
    role: Any = Role(list(range(100)))
    hand_over(role, path)
    path.write_bytes(path.read_bytes()[:-10])
    assert Held.read(path) is None


def test_what_other_code_held_is_refused_and_stays(path: Path) -> None:
    class Other(Role):
        def go_on(self, found: Any) -> None:
            self.held = found["another name"]

    role: Any = Role(1)
    hand_over(role, path)
    other: Any = Other("its own")
    with pytest.raises(CheckpointFault, match=r"another name.*--set checkpoint=model"):
        take_up(other, path)
    assert path.exists()
