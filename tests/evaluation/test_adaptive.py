"""Schedules of actors, and what the updates of an adaptive run say."""

import json
from itertools import accumulate

import pytest

from evaluation.elasticity.adaptive import (
    KINDS,
    Schedule,
    Update,
    line,
    parse,
    read,
    step_ups,
    summary,
    write,
)


def run(*updates: tuple[int, float]) -> list[Update]:
    """Updates of ``(actors, seconds)``, a tenth of each spent on every kind but learning."""
    held = accumulate(actors * seconds for actors, seconds in updates)
    return [
        Update(number, actors, *[seconds / 10] * 4, seconds * 0.6, seconds, reserved, reserved / 2)
        for number, ((actors, seconds), reserved) in enumerate(zip(updates, held, strict=True))
    ]


def test_a_schedule_says_how_many_there_are_in_every_update():
    schedule = parse("2:0,4:5,6:10")
    assert [schedule.at(update) for update in (0, 4, 5, 9, 10, 99)] == [2, 2, 4, 4, 6, 6]
    assert schedule.most == 6


def test_both_orders_mean_the_same():
    assert parse("2:0,4:5,3:10") == parse("0:2,5:4,10:3") == Schedule({0: 2, 5: 4, 10: 3})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("4", "no schedule"),
        ("2:0,4", "no schedule"),
        ("two:0", "no schedule"),
        ("2:0,4:5,6:5", "twice"),
        ("2:1,4:5", "begin with update 0"),
        ("2:0,0:5", "1 or more actors"),
        ("2:0,4:-5", "begin with update 0"),
    ],
)
def test_what_is_no_schedule_is_refused_in_words(text, why):
    with pytest.raises(ValueError, match=why):
        parse(text)


def test_more_work_for_more_actors_is_no_spike():
    assert step_ups(run((2, 1), (2, 1), (4, 2), (4, 2), (6, 3), (6, 3))) == [1, 1]


def test_a_step_up_is_held_against_the_other_updates_with_as_many_actors():
    updates = run((2, 1), (2, 1), (4, 6), (4, 2), (4, 4), (2, 9), (4, 7), (4, 7))
    assert step_ups(updates) == [2, 1]


def test_the_first_update_and_fewer_actors_are_no_step_up():
    assert step_ups(run((4, 9), (4, 1), (2, 9), (2, 1))) == []


def test_a_step_up_without_neighbours_is_left_out():
    updates = run((2, 1), (4, 8), (6, 8))
    assert step_ups(updates) == []
    assert "step_up" not in summary(updates)


def test_the_summary():
    found = summary(run((2, 1), (2, 1), (4, 3), (4, 2)))
    assert (found["run_s"], found["update_s"]) == (7, 1.5)
    assert (found["step_up"], found["step_up_worst"]) == (1.5, 1.5)
    assert (found["held_cpu_s"], found["used_cpu_s"]) == (24, 12)
    assert sum(found[f"seconds.{kind}"] for kind in KINDS) == pytest.approx(7)


def test_updates_are_written_and_read_back(tmp_path):
    updates = run((2, 1), (4, 1 / 3))
    write(updates, tmp_path / "new" / "updates.json")
    assert read(tmp_path / "new" / "updates.json") == updates


def test_an_update_is_one_line():
    text = line(run((2, 1 / 3))[0])
    assert "\n" not in text
    assert json.loads(text)["total"] == 0.3333
