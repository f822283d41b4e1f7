"""Updates of a learner against samples of its device."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artos.pool.idle import IdleTime


def idle_time(*updates: tuple[float, float]) -> IdleTime:
    found = IdleTime()
    for began, ended in updates:
        found.updated(began, ended)
    return found


def test_a_sample_tells_about_the_time_since_the_one_before_it() -> None:
    idle = idle_time((10.0, 11.0))
    assert idle.sampled([(10.0, 0.5), (10.5, 0.2), (11.0, 1.0)]) == pytest.approx(0.5 * 0.8)


def test_only_updates_count() -> None:
    idle = idle_time((10.0, 10.1), (10.4, 10.5))
    assert idle.sampled([(10.0, 0.0), (11.0, 0.75)]) == pytest.approx(0.2 * 0.25)


def test_the_end_of_an_update_is_told_by_the_next_sample() -> None:
    idle = idle_time((10.0, 11.0))
    assert idle.sampled([(10.0, 0.0), (10.5, 0.5)]) == pytest.approx(0.25)
    assert idle.sampled([(10.5, 0.5)]) == 0.0  # seen
    idle.updated(11.2, 12.0)
    assert idle.sampled([(11.5, 0.0)]) == pytest.approx(0.5 + 0.3)


def test_time_that_no_sample_tells_about_is_not_idle() -> None:
    idle = idle_time((10.0, 20.0))
    assert idle.sampled([(19.5, 0.0)]) == pytest.approx(1.0)
    assert idle.sampled([]) == 0.0


def test_updates_are_forgotten_once_samples_have_passed_them() -> None:
    idle = idle_time((10.0, 10.5), (10.6, 11.0), (11.1, 12.0))
    idle.sampled([(11.0, 0.5)])
    assert [*idle._updates] == [(11.1, 12.0)]


@given(
    st.lists(st.tuples(st.floats(0.0, 2.0), st.floats(0.0, 1.0)), max_size=20),
    st.lists(st.tuples(st.floats(0.01, 3.0), st.floats(0.0, 1.0)), max_size=40),
    st.integers(1, 7),
)
def test_never_more_idle_than_updates_took(
    updates: list[tuple[float, float]], samples: list[tuple[float, float]], at_once: int
) -> None:
    idle, now, total = IdleTime(), 0.0, 0.0
    for pause, seconds in updates:
        idle.updated(now + pause, now + pause + seconds)
        now, total = now + pause + seconds, total + seconds
    told, at = [], 0.0
    for gap, share in samples:
        at += gap
        told.append((at, share))
    found = sum(idle.sampled(told[n : n + at_once]) for n in range(0, len(told), at_once))
    assert -1e-9 <= found <= total + 1e-6
