"""How far processes have come that compute together, and what one of them is told."""

from __future__ import annotations

import os
from pathlib import Path

from artos.buffer.gathering import Gathering


def together(folder: Path, *terms: int) -> list[Gathering]:
    Gathering.create(folder / "gathering", len(terms))
    found = [Gathering.attach(folder / "gathering", len(terms)) for _ in terms]
    for rank, term in enumerate(terms):
        found[rank].come(rank, term)
    return found


def test_who_is_behind(tmp_path: Path) -> None:
    first, second, third = together(tmp_path, 1, 1, 1)
    assert first.behind() == []
    first.begin()
    assert first.behind() == [1, 2]
    third.begin()
    assert first.behind() == [1]
    second.begin()
    second.begin()
    assert (first.behind(), second.behind()) == ([], [0, 2])
    assert first.pid(2) == os.getpid()


def test_who_has_not_come_again_is_behind_whatever_it_did_before(tmp_path: Path) -> None:
    first, second = together(tmp_path, 1, 1)
    for _ in range(5):
        second.begin()
    second.give(0, 77)
    first.come(0, 2)
    first.begin()
    assert first.behind() == [1]
    assert first.given is None
    second.come(1, 2)
    second.give(0, 78)
    assert first.given == 78


def test_who_is_given_something_is_woken(tmp_path: Path) -> None:
    first, second = together(tmp_path, 3, 3)
    first.give(1, 7)
    second.wait(60.0)  # it was rung
    assert (first.given, second.given) == (None, 7)
