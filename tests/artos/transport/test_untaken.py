"""Who says much has its turn like everybody else, in the order in which it said it."""

from __future__ import annotations

import random
from collections import Counter, defaultdict

import pytest

from artos.protocol.control import Leaving
from artos.protocol.message import Message, Restarted
from artos.transport import untaken
from artos.transport.untaken import Untaken


def said(number: int) -> Message:
    return Leaving(str(number))


def test_a_flood_of_one_delays_another_by_one_message() -> None:
    there = Untaken()
    for number in range(3000):
        there.put(f"user:ann/{number % 7}", said(number), 10)
    there.put("user:ben/1", said(0), 10)
    assert [name for name, _ in there.take(2)] == ["user:ann/0", "user:ben/1"]
    assert len(there) == 2999


def test_turns_go_on_where_they_were_left() -> None:
    there = Untaken()
    for number in range(4):
        for name in ("a", "b", "c"):
            there.put(name, said(number))
    taken = [name for _ in range(4) for name, _ in there.take(2)]
    assert taken == ["a", "b", "c", "a", "b", "c", "a", "b"]


def test_nothing_is_lost_and_each_is_heard_in_its_order() -> None:
    rng, there, put = random.Random(1), Untaken(), Counter[str]()
    heard: dict[str, list[str]] = defaultdict(list)
    while sum(put.values()) < 2000 or len(there):
        if sum(put.values()) < 2000:
            name = f"w{rng.randrange(5)}/{rng.randrange(2)}"
            there.put(name, said(put[name]), rng.randrange(9))
            put[name] += 1
        deaf = {f"w{rng.randrange(5)}/0"}
        for name, message in there.take(rng.choice((0, 1, 1, 3)), lambda name: name not in deaf):  # noqa: B023
            assert name not in deaf
            heard[name].append(message.why)  # type: ignore[attr-defined]
    assert {name: [*map(str, range(count))] for name, count in put.items()} == heard


def test_a_holder_has_its_share_whatever_others_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(untaken, "_MOST", 3)
    monkeypatch.setattr(untaken, "_MOST_BYTES", 100)
    monkeypatch.setattr(untaken, "_MOST_OF_ALL", 150)
    there = Untaken()
    for _ in range(3):
        assert there.has_room("user:ann/1")
        there.put("user:ann/1", said(0), 10)
    assert not there.has_room("user:ann/2"), "it is the same one"
    there.put("w1", said(0), 110)
    assert not there.has_room("w1")
    there.put("w2", said(0), 20)
    assert not there.has_room("w2"), "all together have too much"
    assert there.has_room("w3"), "whoever has nothing here may say something"
    there.take()
    assert all(there.has_room(name) for name in ("user:ann/1", "w1", "w2"))


def test_who_begins_anew_again_and_again_is_one_word() -> None:
    there = Untaken()
    for name in ("a", "a", "b", "a", "a"):
        there.put(name, Restarted())
    assert [name for name, _ in there.take()] == ["a", "b"]
