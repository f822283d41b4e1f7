"""Elasticity: every goal is about something that is measured."""

import pytest

from artos.errors import DeadlineExceeded
from evaluation.core.report import Results
from evaluation.core.runner import Answer
from evaluation.elasticity import adaptive
from evaluation.elasticity import bench as elasticity


@pytest.fixture
def contestants(monkeypatch, tmp_path):
    """Everyone, with no baseline's environment made."""

    def absent(*arguments, **options):
        raise DeadlineExceeded("nobody", 0)

    monkeypatch.setattr(elasticity, "baseline", lambda *arguments, **options: absent)

    def of(scale, results):
        return list(elasticity.Contestants(scale, results, tmp_path, print))

    return of


@pytest.mark.parametrize("scale", [elasticity.FULL, elasticity.QUICK])
def test_every_goal_is_about_a_case_that_is_measured(contestants, scale):
    results = Results("elasticity", 1)
    for contestant in contestants(scale, results):
        for case, unit in contestant.cases.values():
            results.add(case, unit, 1.0)
    elasticity.judge(results, scale)
    report = results.report()
    assert all(ratio.median == 1.0 for ratio in report.ratios)
    rows = {row.case: row for row in report.rows}
    goals = list(elasticity.absolute_goals(scale.together[-1]))
    assert all(rows[case].goal == goal for case, _, goal in goals)


def test_no_two_contestants_answer_for_one_case(contestants):
    cases = [
        case
        for contestant in contestants(elasticity.FULL, Results("elasticity", 1))
        for case, _ in contestant.cases.values()
    ]
    assert len(set(cases)) == len(cases)


def test_the_goals_are_those_of_the_issue(contestants):
    results = Results("elasticity", 1)
    elasticity.judge(results, elasticity.FULL)
    goals = {(ratio.case, ratio.goal) for ratio in results.report().ratios if ratio.goal}
    assert goals == {
        (f"{elasticity.START}: ARTOS, template clone", 0.1),
        (f"{elasticity.START}: ARTOS, template clone", 0.06),
        (f"{elasticity.UPDATES}: ARTOS", 0.85),
        (f"{elasticity.HELD}: ARTOS", 0.45),
        (f"{elasticity.DEVICE}: ARTOS", 0.41),
        (f"{elasticity.PARK}: ARTOS, auto", 1.05),
    }


def test_sixteen_at_once_are_judged_only_where_there_were_sixteen():
    full, quick = (
        {case for case, _, _ in elasticity.absolute_goals(most)}
        for most in (elasticity.FULL.together[-1], elasticity.QUICK.together[-1])
    )
    assert full - quick == {
        f"{case}: ARTOS, 16 clones" for case in (elasticity.TOGETHER, elasticity.MEMORY)
    }


def test_what_a_run_says_of_its_updates_is_followed(contestants, tmp_path, monkeypatch):
    updates = [adaptive.Update(n, 2 + n, 1, 2, 3, 4, 5, 15, 6 * n, 7 * n) for n in range(3)]

    def call():
        adaptive.write(updates, tmp_path / "ARTOS.json")
        return Answer(adaptive.summary(updates), {})

    monkeypatch.setattr(elasticity, "ours", lambda *arguments, **options: call)
    results = Results("elasticity", 1)
    everyone = contestants(elasticity.QUICK, results)
    [mine] = [each for each in everyone if each.name == "ARTOS, adaptive"]
    rates = mine.measure().rates
    assert (rates["run_s"], rates["later_s"], rates["spent.learn"]) == (45, 44, 15)
    assert rates["before_step_up"] == 1.0
    assert not any(name.startswith("seconds.") for name in rates)
    series = results.report().series["ARTOS"]
    assert (series["actors"], series["seconds an update"]) == ([2, 3, 4], [15, 15, 15])


def test_an_update_that_makes_the_next_ones_actors_is_held_against_those_before():
    seconds = [(2, 9), (2, 1), (2, 3), (2, 4), (4, 8), (4, 2), (4, 3), (2, 5), (3, 5)]
    updates = [adaptive.Update(n, a, 0, 0, 0, 0, s, s, 0, 0) for n, (a, s) in enumerate(seconds)]
    # 4 over the mean of 1 and 3; fewer actors are no step up; the last one has none to compare to.
    assert elasticity.before_step_ups(updates) == [2.0, 1.0]
    # 2 over 3; then the last stretches are too short to have later ones.
    assert elasticity.after_step_ups(updates) == [2 / 3, 1.0]
