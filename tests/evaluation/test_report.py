"""What a report says must follow from the values that went in."""

import io

import msgspec
import pytest
from rich.console import Console

from evaluation.core.report import (
    Results,
    goal,
    grouped,
    holds,
    missed,
    number,
    print_table,
    read_json,
    write_json,
)


@pytest.fixture
def results():
    found = Results("toy", repeats=3)
    for ours, theirs in ((30.0, 10.0), (20.0, 10.0), (40.0, 10.0)):
        found.add("speed: ARTOS", "steps/s", ours)
        found.add("speed: baseline", "steps/s", theirs)
    return found


def test_ratios_are_paired_by_repetition(results):
    results.compare("speed: ARTOS", "speed: baseline", 2.5)
    [ratio] = results.report().ratios
    assert (ratio.median, ratio.min, ratio.max) == (3.0, 2.0, 4.0)
    assert ratio.holds is True


@pytest.mark.parametrize(
    ("goal", "bound", "holds"),
    [
        (3.0, "at least", True),
        (3.1, "at least", False),
        (3.0, "at most", True),
        (2.9, "at most", False),
    ],
)
def test_a_goal_holds_by_the_median(results, goal, bound, holds):
    results.compare("speed: ARTOS", "speed: baseline", goal, bound)
    assert results.report().ratios[0].holds is holds


def test_a_ratio_without_a_goal_neither_holds_nor_fails(results):
    results.compare("speed: ARTOS", "speed: baseline")
    assert results.report().ratios[0].holds is None


@pytest.mark.parametrize(("goal", "holds"), [(30.0, True), (29.9, False)])
def test_a_case_can_have_a_goal_of_its_own(results, goal, holds):
    results.require("speed: ARTOS", goal)
    ours, theirs = results.report().rows
    assert (ours.goal, ours.bound, ours.holds) == (goal, "at most", holds)
    assert (theirs.goal, theirs.holds) == (None, None)


@pytest.mark.parametrize(
    ("values", "word"),
    [((), "not measured"), ((None, None), "not measured"), ((9, None), "incomplete")],
)
def test_a_goal_that_cannot_be_judged_is_missed_and_shown_so(values, word):
    results = Results("toy", repeats=2)
    for value in values:
        if value is None:
            results.missed("speed: ARTOS", "steps/s", "it failed")
        else:
            results.add("speed: ARTOS", "steps/s", value)
    for _ in range(2):
        results.add("speed: rival", "steps/s", 3.0)
    results.require("speed: ARTOS", 1.0, "at least")
    results.compare("speed: ARTOS", "speed: rival", 1.0)
    report = results.report()
    judged = (*report.rows, *report.ratios)
    assert [holds(each) for each in judged if each.goal] == [word, word]
    assert missed(report) == 2


def test_a_ratio_whose_other_case_lacks_a_value_is_not_judged(results):
    results.missed("speed: baseline", "steps/s", "it failed")
    results.add("speed: ARTOS", "steps/s", 30.0)
    results.compare("speed: ARTOS", "speed: baseline", 2.0)
    assert holds(results.report().ratios[0]) == "incomplete"


@pytest.mark.parametrize(("every", "word"), [(False, "yes"), (True, "no")])
def test_a_goal_of_every_repetition_is_missed_by_a_single_one(every, word):
    results = Results("toy", repeats=3)
    for rows in (0.0, 0.0, 7.0):
        results.add("lost rows: ARTOS", "rows", rows)
    results.require("lost rows: ARTOS", 0.0, every=every)
    [row] = results.report().rows
    assert (holds(row), goal(row)) == (word, "each ≤ 0" if every else "≤ 0")


def test_a_ratio_with_the_best_of_several_says_which_of_them_lack_values(results):
    ways = ["speed: baseline", "speed: baseline, 2 threads"]
    results.compare("speed: ARTOS", results.best(ways), 2.0)
    results.missed(ways[1], "steps/s", "does not install")
    results.compare("speed: ARTOS", results.best(ways), 2.0)
    whole, lacking = results.report().ratios
    assert (whole.note, lacking.against) == ("", ways[0])
    assert lacking.note == "not measured in every repetition: baseline, 2 threads"
    console = Console(width=120, file=io.StringIO())
    print_table(results.report(), console)
    assert lacking.note in console.file.getvalue()


def test_the_table_shows_the_goal_of_a_case(results):
    results.require("speed: ARTOS", 7.0)
    console = Console(width=120, file=io.StringIO())
    print_table(results.report(), console)
    [line] = [line for line in console.file.getvalue().splitlines() if "ARTOS" in line]
    assert "≤ 7" in line
    assert "no" in line


def test_series_are_in_the_file(results, tmp_path):
    results.followed("ARTOS", {"actors": (2, 4)})
    write_json(results.report(), tmp_path / "toy.json")
    assert read_json(tmp_path / "toy.json").series == {"ARTOS": {"actors": [2, 4]}}


def test_an_absent_rival_is_a_row_that_says_why(results):
    results.absent("speed: gone", "steps/s", "no wheel for this Python")
    results.compare("speed: ARTOS", "speed: gone", 2.0)
    report = results.report()
    row = report.rows[-1]
    assert (row.n, row.median, row.note) == (0, None, "no wheel for this Python")
    assert (report.ratios[0].median, report.ratios[0].holds) == (None, None)


def test_a_goal_without_any_rival_is_still_listed(results):
    results.compare("speed: ARTOS", results.best([]), 2.0)
    assert results.report().ratios[0].against == "no baseline"


def test_the_best_has_the_highest_median_of_those_measured(results):
    results.absent("speed: gone", "steps/s", "why")
    cases = ["speed: baseline", "speed: ARTOS", "speed: gone"]
    assert (results.best(cases), results.lowest(cases)) == ("speed: ARTOS", "speed: baseline")
    assert (results.best([]), results.lowest(cases[2:])) == (None, None)


def test_the_file_reads_back_as_it_was_written(results, tmp_path):
    results.used("baseline", {"torch": "2.13.0"})
    results.compare("speed: ARTOS", "speed: baseline", 2.0)
    report = results.report()
    path = tmp_path / "deep" / "toy.json"
    write_json(report, path)
    assert read_json(path) == report
    plain = msgspec.json.decode(path.read_bytes())
    assert set(plain) >= {"name", "date", "rows", "ratios", "machine", "versions"}
    assert set(plain["rows"][0]) >= {"case", "unit", "median", "min", "max", "n"}
    assert set(plain["ratios"][0]) >= {"case", "against", "median", "min", "max", "goal", "holds"}
    assert plain["versions"]["baseline"] == {"torch": "2.13.0"}


def test_the_table_shows_every_case_verdict_and_excuse(results):
    results.absent("size: gone", "GB", "no wheel")
    results.compare("speed: ARTOS", "speed: baseline", 9.0)
    console = Console(width=120, file=io.StringIO())
    print_table(results.report(), console)
    text = console.file.getvalue()
    for expected in ("speed", "ARTOS", "baseline", "30.0", "no wheel", "≥ 9", "no", "cores"):
        assert expected in text


def test_rows_of_a_group_stand_together_however_they_came_in():
    results = Results("toy", repeats=1)
    for case in ("a: ARTOS", "b: ARTOS", "a: baseline"):
        results.add(case, "s", 1.0)
    groups = [
        (group, [row.contestant for row in rows]) for group, rows in grouped(results.report().rows)
    ]
    assert groups == [("a", ["ARTOS", "baseline"]), ("b", ["ARTOS"])]


def test_numbers_keep_about_three_digits():
    shown = [number(value) for value in (None, 0.01234, 0.5, 12.34, 12345.6)]
    assert shown == ["–", "0.0123", "0.50", "12.3", "12,346"]


def test_nothing_is_divided_by_nothing():
    found = Results("toy", repeats=2)
    for ours, theirs in ((1.0, 0.0), (3.0, 2.0)):
        found.add("used: ARTOS", "s", ours)
        found.add("used: baseline", "s", theirs)
    assert found.over("used: ARTOS", "used: baseline") == [1.5]
