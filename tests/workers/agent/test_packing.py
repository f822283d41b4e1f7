"""Which frames travel compressed: a matter of what is gained and of how fast the link is."""

from __future__ import annotations

import pytest

from workers.agent.sender import Packing

MB = 1 << 20
GBIT = 125e6


def knowing(ratio: float, speed: float, link: float) -> Packing:
    """All measured at time 0: key "k" compresses like that, and the link carries so much."""
    made = Packing()
    assert not made.wants("k", MB, 0.0), "the first large frame times the link"
    made.crossed(MB, MB / link)
    made.packed("k", MB, round(MB / ratio), MB / speed, 0.0)
    return made


@pytest.mark.parametrize(
    ("ratio", "speed", "link", "wants"),
    [
        (56.0, 8e9, 10 * GBIT, True),  # Pong
        (56.0, 8e9, 4e9, False),  # both ends of one machine
        (1.05, 1e9, GBIT, False),  # floats: the way is hardly shorter
        (1.05, 8e9, GBIT / 100, True),
        (2.0, 1e9, GBIT, True),
        (2.0, 1e9, 10 * GBIT, False),
    ],
)
def test_it_pays_where_the_way_costs_more_than_the_work(
    ratio: float, speed: float, link: float, wants: bool
) -> None:
    assert knowing(ratio, speed, link).wants("k", MB, 0.5) is wants


def test_what_is_not_known_is_tried() -> None:
    made = knowing(1.0, 1e9, GBIT)
    assert not made.wants("k", MB, 0.5)
    assert made.wants("other", MB, 0.5)


def test_measurements_are_made_again() -> None:
    made = knowing(1.0, 1e9, GBIT)
    assert not made.wants("k", MB, 0.9)
    assert made.wants("k", MB, 1.1), "one slow call must not count for ever"
    assert not made.wants("k", MB, 11.0), "the link is timed again"
    assert made.wants("k", MB, 11.0)


def test_a_frame_that_grew_is_sent_as_it_was() -> None:
    assert not Packing().packed("k", 1000, 1004, 1e-6, 0.0)
    assert Packing().packed("k", 1000, 900, 1e-6, 0.0)


def test_small_frames_and_a_packing_that_is_off_are_left_alone() -> None:
    made = knowing(56.0, 8e9, GBIT)
    assert made.wants("k", 1024, 1.0)
    assert not made.wants("k", 1023, 1.0)
    assert not Packing(enabled=False).wants("k", 2048, 1.0)


def test_two_that_land_together_tell_of_no_fast_link() -> None:
    """The second was on its way while the answer to the first was."""
    made = Packing()
    for _ in range(8):
        made.crossed(MB, 2 * MB / GBIT)
        made.crossed(MB, 1e-9)
        assert made.link < 2 * GBIT


def test_short_crossings_say_nothing_about_the_link() -> None:
    made = Packing()
    made.crossed(1000, 1.0)
    assert made.link == GBIT
    made.crossed(MB, 1.0)
    assert made.link == MB
    made.crossed(MB, 0.0)
    assert made.link == MB
