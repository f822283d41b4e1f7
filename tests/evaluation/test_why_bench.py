"""Planted bottlenecks: what their runs are given, and how a case is judged."""

from __future__ import annotations

from itertools import count

import pytest

from evaluation.why import bench
from evaluation.why.bench import Judged, judged
from evaluation.why.cases import CASES, DISK, QUOTA, Case, NotUnderstood, settings_of, words_of


@pytest.mark.parametrize(
    ("advice", "settings"),
    [
        ("--actors 2", {"actors": "2"}),
        ("--actors 9 --set inference=central", {"actors": "9", "inference": "central"}),
        ("--set n=3 --set max_lag=10", {"n": "3", "max_lag": "10"}),
        ("--priority 1", {"priority": "1"}),
        ("--run-dir on a faster disk", {DISK: "fast"}),
        ("in head.toml: a quota of slots = 4", {QUOTA: "4"}),
    ],
)
def test_an_advice_is_followed(advice: str, settings: dict[str, str]) -> None:
    assert settings_of(advice) == settings


def test_an_advice_without_a_setting_is_refused() -> None:
    with pytest.raises(NotUnderstood, match="buy a machine"):
        settings_of("buy a machine")


def test_settings_become_flags() -> None:
    words = words_of({"actors": "2", "steps": "16", QUOTA: "1", DISK: "fast"})
    assert words == ["--actors", "2", "--set", "steps=16"]


def test_there_are_twelve_and_each_has_an_alternative() -> None:
    assert len({case.bottleneck for case in CASES}) == len(CASES) == 12
    assert all(case.sweep for case in CASES)


@pytest.mark.parametrize(
    ("planted", "advised", "best", "possible"),
    [
        (10.0, 20.0, 20.0, 100.0),
        (10.0, 18.0, 20.0, 80.0),
        (10.0, 10.0, 10.0, 0.0),
        (8.320104583714617, 14.55709644154377, 14.55709644154377, 100.0),
    ],
)
def test_the_share_of_what_is_possible(
    planted: float, advised: float, best: float, possible: float
) -> None:
    assert Judged("", "", 1.0, planted, advised, best).possible == possible


def test_one_that_is_not_named_once_misses_its_goal(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = count()

    def found(case: Case, _: object) -> Judged:
        named = "something else" if next(asked) == 0 else case.bottleneck
        return Judged(named, "", 1.0, 1.0, 1.0, 1.0)

    monkeypatch.setattr(bench, "judged", found)
    rows = bench.measure(3, True, lambda _: None).report().rows
    assert [row.holds for row in rows if row.group == bench.NAMED] == [False, True]


@pytest.mark.long
@pytest.mark.processes
def test_a_case_is_judged() -> None:
    case, said = next(case for case in CASES if case.bottleneck == "lag gate"), list[str]()
    short = Case(case.bottleneck, case.workload, case.settings, ({"max_lag": "1"},), updates=5)
    found = judged(short, said.append)
    assert found.named == "lag gate", said
    assert found.possible == 100.0, "there was no other"
    assert found.gain > 1.0
