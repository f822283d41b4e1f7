"""What several nodes cost together, and what is accepted as usage."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from artos.errors import BadMessage
from artos.protocol.usage import Usage


def cold(count: int, median: float, worst: float) -> dict[str, dict[str, int | float]]:
    return {"cold": {"count": count, "median_s": median, "p95_s": worst}}


def test_nothing_costs_nothing() -> None:
    assert Usage.total([]) == Usage()


def test_each_number_is_added_up() -> None:
    one = Usage(1.0, 2.0, 4.0, 8.0, 16.0, 32, {"slot": 64.0, "room": 1.0}, nodes=("w2",))
    two = Usage(128.0, 256.0, 512.0, 1.0, 2.0, 4, {"slot": 8.0}, nodes=("w1", "w2"))
    waits, nodes = {"slot": 72.0, "room": 1.0}, ("w1", "w2")
    assert Usage.total([one, two]) == Usage(129.0, 258.0, 516.0, 9.0, 18.0, 36, waits, {}, nodes)


def test_the_median_is_that_of_most_starts_and_the_p95_the_worst() -> None:
    usages = [
        Usage(starts=cold(1, 9.0, 9.5)),
        Usage(starts=cold(3, 2.0, 11.0)),
        Usage(starts=cold(1, 1.0, 1.0)),
    ]
    assert Usage.total(usages).starts == cold(5, 2.0, 11.0)


def test_kinds_of_start_are_kept_apart() -> None:
    moved = {"moved": {"count": 2, "median_s": 0.5, "p95_s": 0.5}}
    assert (
        Usage.total([Usage(starts=cold(1, 1.0, 1.0)), Usage(starts=moved)]).starts
        == cold(1, 1.0, 1.0) | moved
    )


def test_a_bill_survives_its_way_as_plain_data() -> None:
    usage = Usage(1.0, 2.0, bytes_moved=4, starts=cold(2, 1.0, 1.5), nodes=("w1",))
    there = msgspec.msgpack.decode(msgspec.msgpack.encode(msgspec.structs.asdict(usage)))
    assert Usage.of(there) == usage
    assert isinstance(Usage.of(there).starts["cold"]["count"], int)
    assert Usage.of({}) == Usage()


@pytest.mark.parametrize(
    "plain",
    [
        {"cpu_seconds_held": "many"},
        {"cpu_seconds_used": None},
        {"starts": {"cold": 3}},
        {"starts": {"cold": {"count": 3}}},
        {"starts": {"cold": {"count": 1.5, "median_s": 1.0, "p95_s": 1.0}}},
        {"starts": cold(1, 1.0, 1.0) | {"fork": {"count": 1, "median_s": "1", "p95_s": 1.0}}},
        {"nodes": "w1"},
    ],
)
def test_what_is_no_bill_is_refused(plain: dict[str, Any]) -> None:
    with pytest.raises(BadMessage, match="usage of a run: "):
        Usage.of(plain)
