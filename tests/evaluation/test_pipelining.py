"""Pipelining: every goal is about something that is measured, and every picture is drawn."""

import pytest

from evaluation.core.report import Results
from evaluation.core.runner import Answer
from evaluation.pipelining import bench as pipelining
from evaluation.pipelining import cases, contestants, figures
from evaluation.pipelining.contestants import FULL, QUICK, Contestants

SCALES = pytest.mark.parametrize("scale", [FULL, QUICK], ids=["full", "quick"])


@pytest.fixture
def everyone(monkeypatch, tmp_path):
    """Everyone, with no baseline's environment made and nothing started."""
    asked = []

    def call(*arguments, **options):
        asked.append((arguments, options))
        return lambda: Answer({"transfer_s": 2.0}, {})

    monkeypatch.setattr(contestants, "baseline", call)
    monkeypatch.setattr(contestants, "ours", call)
    monkeypatch.setattr(contestants.environments, "prepare", lambda *_: Answer)

    def of(scale):
        return list(Contestants(scale, tmp_path, print))

    of.asked = asked
    return of


def measured(everyone, scale):
    """Results in which everything was measured once, as 1."""
    results = Results("pipelining", 1)
    for contestant in everyone(scale):
        for case, unit in contestant.cases.values():
            results.add(case, unit, 1.0)
    return results


@SCALES
def test_every_goal_is_about_a_case_that_is_measured(everyone, scale):
    results = measured(everyone, scale)
    pipelining.judge(results, scale)
    report = results.report()
    assert all(ratio.median == 1.0 for ratio in report.ratios), [
        ratio for ratio in report.ratios if ratio.median != 1.0
    ]
    rows = {row.case: row for row in report.rows}
    assert rows[f"{cases.HANDOVER}: ARTOS, in place"].goal == 1.0
    assert rows[f"{cases.copies(cases.UNTHROTTLED)}: ARTOS"].goal == 1.1


@SCALES
def test_no_two_contestants_answer_for_one_case(everyone, scale):
    found = [case for each in everyone(scale) for case, _ in each.cases.values()]
    assert len(set(found)) == len(found)


def test_the_goals_are_those_of_the_issue(everyone):
    results = measured(everyone, FULL)
    pipelining.judge(results, FULL)
    goals = {
        (ratio.case, ratio.against): ratio.goal for ratio in results.report().ratios if ratio.goal
    }
    wait, transfer = cases.WAIT, cases.TRANSFER
    for speed in cases.SPEEDS:
        mine = cases.case(wait, speed, "ARTOS")
        assert goals.pop((mine, cases.case(wait, speed, "ARTOS-"))) == 0.25
        assert goals.pop((mine, cases.case(wait, speed, "Ray"))) == 0.5
    unthrottled = cases.case(wait, cases.UNTHROTTLED, "ARTOS")
    assert goals.pop((unthrottled, cases.case(wait, cases.UNTHROTTLED, "Ray, same machine"))) == 0.5
    slow = [cases.case(transfer, cases.SLOWEST, who) for who in ("ARTOS", "Redis")]
    assert goals.pop(tuple(slow)) == 0.1
    speeds = (cases.SLOWEST, cases.UNTHROTTLED)
    both = [cases.case(cases.ITERATION, speed, "ARTOS") for speed in speeds]
    assert goals.pop(tuple(both)) == 1.05
    runs = [f"{cases.training(speed)}: ARTOS" for speed in speeds]
    assert goals.pop(tuple(runs)) == 1.05
    assert sorted(goals.values()) == pytest.approx([0.05, 0.2, 0.4, 0.9, 115.0])


def test_what_is_off_and_how_fast_the_link_is_reaches_the_script(everyone):
    by_name = {each.name: each for each in everyone(FULL)}
    everyone.asked.clear()
    by_name["ARTOS-, not encrypted, unthrottled, 16 actors × 512 steps"].measure()
    by_name["ARTOS-, 1 Gbit/s, 16 actors × 512 steps"].measure()
    (bare, _), (slow, _) = everyone.asked
    assert bare[0] == slow[0] == "lab.link"
    assert "--mbit" not in bare
    assert slow[slow.index("--mbit") + 1] == "1000.0"
    assert [word for word in bare if word in cases.ALL_OFF] == list(cases.ALL_OFF)
    assert "curve" in bare
    assert "curve" not in slow


def test_a_rate_is_what_the_learner_got_by_the_time_it_took(everyone):
    by_name = {each.name: each for each in everyone(FULL)}
    found = by_name["raw sockets, unthrottled, 16 actors × 512 steps"].measure()
    gigabytes = 16 * 512 * (4 * 84 * 84 + 27) / 1e9
    assert found.rates["gb_per_s"] == pytest.approx(gigabytes / 2)


@pytest.mark.long
def test_every_picture_is_drawn_of_what_there_is(everyone, tmp_path):
    report = measured(everyone, FULL).report()
    made = figures.draw_all(report, tmp_path / "pipelining.png")
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in made)
    names = {path.stem.removeprefix("pipelining") for path in made}
    assert {"-figure-4", "-figure-6", "-figure-15a", "-control", "-transfer", ""} <= names


def test_nothing_measured_gives_no_picture(tmp_path):
    assert figures.draw_all(Results("pipelining", 1).report(), tmp_path / "x.png") == []


def test_figures_find_the_usual_size_among_the_others(everyone):
    medians = figures.Medians(measured(everyone, FULL).report())
    sizes = figures._sizes(medians, ("ARTOS", "Ray", "Redis"))
    assert [(size.actors, size.steps) for size in sizes if size.steps == 512] == [
        (4, 512), (8, 512), (16, 512), (32, 512),
    ]  # fmt: skip
    assert [size.steps for size in sizes if size.actors == 16] == [128, 256, 512, 1024]
