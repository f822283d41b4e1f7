"""What a tracker is told of a run besides its rows: settings, and how things are spread."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from artos.protocol.views import Status
from head.records.episodes import Ended
from head.records.told import counted, ended, lags, settings, since, waits
from head.records.tracker import edges

COUNTED = Status(
    lags={"0": 3, "2-3": 1}, waited={"actors.wait/0.001": 4, "actors.wait/inf": 1}
)  # fmt: skip
Sizes = st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1)


def test_classes_of_lags_lie_side_by_side() -> None:
    assert lags(COUNTED) == {(0, 1): 3, (1, 2): 0, (2, 4): 1}


def test_classes_of_waits_have_an_end() -> None:
    assert waits(COUNTED) == {"actors.wait": {(0.0, 0.001): 4, (0.001, 3600.0): 1}}


def test_what_is_counted_has_one_name_each() -> None:
    assert counted(COUNTED).keys() == {"lags", "waited/actors.wait"}
    assert counted(Status()) == {}


def test_what_came_meanwhile_is_told() -> None:
    before, now = {(0, 1): 3, (1, 2): 2}, {(0, 1): 3, (1, 2): 5, (2, 4): 0}
    assert since(before, now) == {(0, 1): 0, (1, 2): 3}
    assert since(now, now) == {}
    assert since({}, now) == {(0, 1): 3, (1, 2): 5}


def test_counts_that_begin_anew_are_told_whole() -> None:
    assert since({(0, 1): 9, (1, 2): 1}, {(0, 1): 2, (1, 2): 4}) == {(0, 1): 2, (1, 2): 4}


def test_episodes_are_told_by_whose_they_were() -> None:
    found = ended([Ended(1, 5.0, 3), Ended(2, 5.0, 3, "a"), Ended(3, 7.0, 3, "a")])
    assert found["episodes/return"] == {(5.0, 6.0): 1}
    assert found["episodes/length/a"] == {(3.0, 4.0): 2}
    of_a = found["episodes/return/a"]
    assert [count for count in of_a.values() if count] == [1, 1]
    assert (edges(of_a)[0], edges(of_a)[-1]) == (5.0, 7.0)


@given(Sizes)
def test_every_finite_return_is_in_one_class(values: list[float]) -> None:
    found = ended(Ended(1, value, 1) for value in values).get("episodes/return", {})
    finite = [value for value in values if abs(value) < float("inf")]
    assert sum(found.values()) == len(finite)
    assert edges(found) == sorted(set(edges(found)))


def test_settings_are_one_level_deep() -> None:
    deep: dict[str, Any] = {"settings": {"a": {"b": None, "c": [1]}}, "plan": {"x": 1}}
    assert settings(deep) == {"settings.a.c": "[1]"}
