"""Contestants take turns, and one that fails is excused without stopping the others."""

import io

import pytest
from rich.console import Console

from artos.errors import DeadlineExceeded
from evaluation.core.report import Results, missed, print_table
from evaluation.core.runner import TIMES, Answer, Contestant, alternate


def contestant(name, log, rates):
    values = iter(rates)

    def measure():
        log.append(name)
        value = next(values)
        if isinstance(value, Exception):
            raise value
        return Answer({"rate": value, f"{TIMES}learn": 2 * value}, {"torch": "2"})

    return Contestant(name, {"rate": (f"speed: {name}", "steps/s")}, measure, {"rate": 10.0})


def silent(text):
    pass


def test_everyone_is_measured_once_before_anyone_is_again():
    log, results = [], Results("toy", 2)
    alternate(results, [contestant(n, log, [1.0, 2.0]) for n in "ab"], 2, silent)
    assert log == ["a", "b", "a", "b"]
    rows = results.report().rows
    assert [(row.case, row.min, row.max, row.n) for row in rows] == [
        ("speed: a", 10.0, 20.0, 2),
        ("speed: b", 10.0, 20.0, 2),
    ]


def test_two_of_one_name_would_be_one_where_a_benchmark_goes_on():
    log = []
    twins = [contestant("a", log, [1.0]) for _ in range(2)]
    with pytest.raises(ValueError, match="several contestants are called a"):
        alternate(Results("toy", 1), twins, 1, silent)
    assert not log


def test_who_fails_is_asked_no_more_and_not_judged_by_what_it_did_before():
    log, results, said = [], Results("toy", 3), []
    failing = contestant("a", log, [1.0, DeadlineExceeded("a's answer", 5)])
    alternate(results, [failing, contestant("b", log, [1.0, 2.0, 3.0])], 3, said.append)
    assert log == ["a", "b", "a", "b", "b"]
    for who in "ab":
        results.require(f"speed: {who}", 1.0, "at least")
    report = results.report()
    first, second = report.rows
    assert (first.values, second.n) == ((10.0, None, None), 3)
    assert first.note.startswith("failed in repetition 2: gave up after 5 s")
    assert (first.holds, second.holds, missed(report)) == (None, True, 1)
    assert any("a's answer" in line for line in said)


def test_versions_and_times_of_a_contestant_are_kept():
    results = Results("toy", 1)
    alternate(results, [contestant("a", [], [3.0])], 1, silent)
    report = results.report()
    assert report.versions["a"] == {"torch": "2"}
    assert report.times == {"speed: a": {"learn": 6.0}}


def forgetful(name, answers):
    """Whose answers may lack a measure."""
    rates = iter(answers)
    cases = {kind: (f"{kind}: {name}", "s") for kind in ("run", "step_up")}
    return Contestant(name, cases, lambda: Answer(next(rates), {}))


def test_a_measure_left_out_is_shown_as_missed_and_the_others_count():
    results = Results("toy", 2)
    alternate(results, [forgetful("a", [{"run": 1.0}, {"run": 3.0}])], 2, silent)
    ran, missed = results.report().rows
    assert (ran.n, ran.median, ran.note) == (2, 2.0, "")
    assert (missed.case, missed.n, missed.median) == ("step_up: a", 0, None)
    assert missed.note == "step_up is not in the answer"


def test_a_repetition_without_a_value_shifts_no_pair_and_is_in_the_table():
    results = Results("toy", 3)
    some = [{"run": 1.0, "step_up": 8.0}, {"run": 1.0}, {"run": 1.0, "step_up": 6.0}]
    every = [{"run": 1.0, "step_up": value} for value in (4.0, 2.0, 3.0)]
    alternate(results, [forgetful("a", some), forgetful("b", every)], 3, silent)
    results.compare("step_up: a", "step_up: b")
    [ratio] = results.report().ratios
    assert (ratio.min, ratio.max) == (2.0, 2.0)
    console = Console(width=120, file=io.StringIO())
    print_table(results.report(), console)
    assert "step_up: a: step_up is not in the answer" in console.file.getvalue()
