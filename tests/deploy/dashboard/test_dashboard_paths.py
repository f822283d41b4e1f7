"""What a path states of a row or a version is true, in runs of every kind; else it says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from artos.errors import Refused
from artos.protocol.invocations import Claim
from deploy.dashboard.paths import Path as Found
from deploy.dashboard.paths import path_of_row, path_of_update, path_of_version
from head.records.shape import Shape
from triggers.events import Firing
from triggers.journal import Journal
from triggers.journal_index import JournalIndex

STEPS = 8
DATA = "triggers.data_key:DataKeyTrigger"
FULL: dict[str, Any] = {"type": DATA, "fields": {"keys": ["rewards"], "size": STEPS}}
WHOLE: dict[str, Any] = {"type": DATA, "fields": {"keys": ["rewards"], "episodes": 2}}
SAMPLE = {"actors.sample": {"type": "triggers.primitives:ObjectKeyTrigger", "fields": {}}}


def shape_of(*prepares: str, **triggers: dict[str, Any]) -> Shape:
    table = {name.replace("_", "."): each for name, each in triggers.items()}
    return Shape(2, 4, STEPS, {**table, **SAMPLE}, prepares)


ONE = shape_of(learner_update=FULL)


class Told:
    """A journal as a run writes it, and what is found in it."""

    def __init__(self, path: Path) -> None:
        self._path, self.now = path / "journal.jsonl", 0.0
        self._book = Journal(self._path)
        self._number = 0

    def begins(self) -> None:
        self.now, self._number = 0.0, 0
        self._book.begins(0.0, 1.7e9)

    def fired(self, trigger: str, *claims: Claim, version: int = 0, **more: Any) -> int:
        self._number += 1
        self.now += 1.0
        firing = Firing(claims, number=self._number, trigger=trigger, version=version, **more)
        self._book.fired(self.now, firing)
        return self._number

    def done(self, firing: int, member: str, **facts: Any) -> None:
        self.now += 1.0
        self._book.done(self.now, firing, member, seconds=0.5, **facts)

    def sampled(self, stop: int, version: int = 0, **facts: Any) -> int:
        """Actor 0 is asked for a round, and answers."""
        firing = self.fired("actors.sample", version=version)
        asked = [stop, 1, 0]
        self.done(firing, "actor 0", version=version, stop=stop, asked=asked, rows=7, **facts)
        return firing

    def learned(self, *claims: Claim, version: int, lag: int = 0, by: str = "learner") -> None:
        """A learner is handed these rows, and makes a version; the first one tells lags of each."""
        lags = {"lags": [(c.actor, float(lag), lag) for c in claims]} if by == "learner" else {}
        firing = self.fired(f"{by}.update", *claims, version=version - 1)
        self.done(firing, by, version=version, lag_mean=float(lag), lag_max=lag, **lags)

    def write(self, **line: Any) -> None:
        """A line that has no time."""
        self._book.write(line)

    def row(self, row: int, shape: Shape = ONE, env: int | None = None) -> Found:
        self._book.flush()
        with JournalIndex(self._path) as index:
            return path_of_row(index, shape, 0, row, env)

    def version(self, version: int, shape: Shape = ONE, learner: str = "learner") -> Found:
        self._book.flush()
        with JournalIndex(self._path) as index:
            return path_of_version(index, shape, version, learner)

    def update(self, number: int, shape: Shape = ONE, learner: str = "") -> Found:
        self._book.flush()
        with JournalIndex(self._path) as index:
            return path_of_update(index, shape, number, learner)


@pytest.fixture
def told(tmp_path: Path) -> Told:
    told = Told(tmp_path)
    told.begins()
    return told


def stations(found: Found) -> list[tuple[str, ...]]:
    """What, whose, and of which number or version."""
    names = ("firing", "trigger", "version", "again")
    return [
        (step.what, step.member, *(f"{n} {step.facts[n]}" for n in names if n in step.facts))
        for step in found.steps
    ]


def whats(found: Found) -> list[tuple[str, str]]:
    return [(step.what, step.member) for step in found.steps]


def test_whole_episodes_are_told_apart_by_their_environment(told: Told) -> None:
    """The same rows of another environment are another episode, which another firing took."""
    shape = shape_of(learner_update=WHOLE)
    told.sampled(8)
    told.learned(Claim(0, 0, 5, 1), Claim(0, 0, 6, 3), version=1)
    told.sampled(13, version=1)
    told.learned(Claim(0, 0, 9, 0), Claim(0, 0, 9, 2), version=2, lag=1)
    for env, firing, version, lag in ((3, 2, 1, 0), (2, 4, 2, 1)):
        found = told.row(4, shape, env)
        assert whats(found) == [("firing", "triggers"), ("update", "learner")]
        assert found.steps[0].facts["firing"] == firing
        assert (found.steps[1].facts["version"], found.lag) == (version, lag)
    every = told.row(4, shape)
    assert [step.facts.get("firing") for step in every.steps[::2]] == [2, 4]
    # Row 7 may be of the second round: the first one may have ended with row 4.
    assert "rounds may end early" in told.row(7, shape).said
    assert whats(told.row(7, shape, 1)) == []
    assert "no firing took it" in told.row(7, shape, 1).said


def test_rounds_that_ended_early_are_told_apart_by_where_they_did(told: Told) -> None:
    shape = shape_of(learner_update=WHOLE)
    first = told.sampled(8, ended=5)
    told.learned(Claim(0, 0, 5, 1), Claim(0, 0, 5, 3), version=1)
    second = told.sampled(13, version=1, ended=9)
    for row, firing, version in ((4, first, 0), (5, second, 1), (7, second, 1), (8, second, 1)):
        found = told.row(row, shape, 2)
        assert (found.steps[0].what, found.steps[0].facts["done"]) == ("round", firing)
        assert found.steps[0].facts["version"] == version
        assert "may end early" not in found.said
    assert "is known to have reached row 9" in told.row(9, shape, 2).said
    told.write(again=9, by="actor 0", version=2, stop=17, asked=[0], rows=7, kept=12)
    assert told.row(11, shape, 2).steps[0].facts["again"] == 9


def test_an_episode_without_an_end_is_not_said_to_be_too_old(told: Told) -> None:
    told.sampled(8)
    cut = (Claim(0, 0, 5, 1),)
    told.fired("learner.update", dropped=cut, cut=True)
    found = told.row(4, shape_of(learner_update=WHOLE))
    assert whats(found) == [("firing", "triggers")]
    assert "or its episode has no end" in found.said


SEVERAL = shape_of(learner_update=FULL, model_update=FULL)


def several(told: Told) -> None:
    """The second learner comes first, and its versions are others."""
    told.sampled(8, beside={"model": 5})
    told.learned(Claim(0, 0, 8), version=6, by="model")
    told.sampled(16, beside={"model": 6})
    told.learned(Claim(0, 0, 8), version=1)
    told.sampled(24, version=1, beside={"model": 5})
    told.learned(Claim(0, 8, 16), version=7, by="model")


def test_each_learner_has_a_firing_and_an_update(told: Told) -> None:
    several(told)
    found = told.row(3, SEVERAL)
    assert stations(found) == [
        ("round", "actor 0", "version 0"),
        ("firing", "triggers", "firing 2", "trigger model.update", "version 5"),
        ("update", "model", "version 6"),
        ("firing", "triggers", "firing 4", "trigger learner.update", "version 0"),
        ("update", "learner", "version 1"),
    ]
    assert (found.lag, found.said) == (0, ""), "that of the learner whose versions rounds have"


def made_of(found: Found) -> list[tuple[int, list[list[int]]]]:
    """The rounds of an update's rows: up to which row each went, and which of its rows they are."""
    return [(step.facts["stop"], step.facts["claimed"]) for step in found.sources]


def test_what_went_into_an_update_are_rounds_of_the_rows_that_it_claims(told: Told) -> None:
    for stop in (8, 16, 24):
        told.sampled(stop)
    told.learned(Claim(0, 4, 20), version=1)
    told.sampled(32, version=1)
    found = told.version(1)
    assert made_of(found) == [(8, [[4, 8]]), (16, [[8, 16]]), (24, [[16, 20]])]
    assert [step.member for step in found.sources] == ["actor 0"] * 3
    assert whats(found) == [("firing", "triggers"), ("update", "learner"), ("round", "actor 0")]
    assert found.said == ""


def test_facts_that_only_a_replay_needs_are_no_part_of_a_path(told: Told) -> None:
    told.sampled(8, large="AA", incarnation=2)
    told.learned(Claim(0, 0, 8), version=1)
    for step in (told.row(3).steps[0], told.version(1).sources[0]):
        assert not {"asked", "rows", "large", "incarnation"} & step.facts.keys()


def test_a_round_that_answers_after_the_firing_is_one_of_its_rounds(told: Told) -> None:
    """Its rows are seen in shared memory first."""
    sample = told.fired("actors.sample")
    update = told.fired("learner.update", Claim(0, 0, 8))
    told.done(update, "learner", version=1, lags=[(0, 0.0, 0)])
    told.done(sample, "actor 0", version=0, stop=8)
    assert made_of(told.version(1)) == [(8, [[0, 8]])]


def test_rounds_that_are_not_known_for_certain_are_not_guessed(told: Told) -> None:
    """Nobody said where the second one ended; the third one's rows begin after that."""
    told.sampled(8)
    told.done(told.fired("actors.sample"), "actor 0", recovered=True)
    told.sampled(24)
    told.learned(Claim(0, 0, 24), version=1)
    found = told.version(1)
    assert made_of(found) == [(8, [[0, 8]]), (24, [[16, 24]])]
    assert found.said == "which rounds of actor 0 sampled all of its rows is not known"
    shape = shape_of(learner_update=WHOLE)
    assert told.version(1, shape).sources == [], "where they may end early, it may be otherwise"


def test_rounds_of_whole_episodes_are_known_by_where_they_ended(told: Told) -> None:
    told.sampled(8, ended=5)
    told.sampled(13, ended=9)
    told.learned(Claim(0, 5, 9, 0), Claim(0, 6, 9, 2), version=1)
    found = told.version(1, shape_of(learner_update=WHOLE))
    assert made_of(found) == [(13, [[5, 9], [6, 9]])]


def test_rows_that_were_lost_are_from_the_rounds_that_sampled_them_again(told: Told) -> None:
    told.sampled(8)
    told.write(lost=4, actor=0, node="w1", **{"from": 4}, granted=16)
    told.sampled(12)
    told.learned(Claim(0, 0, 8), version=1)
    told.write(lost=8, actor=0, node="w1", **{"from": 4}, granted=16)
    told.sampled(12, version=1)
    assert made_of(told.version(1)) == [(8, [[0, 4]]), (12, [[4, 8]])]


def test_updates_that_publish_nothing_have_paths_too(told: Told) -> None:
    """As those of DQN: samplers draw its rows, and it publishes every so many updates."""
    shape = shape_of(learner_update={"type": "triggers.replay:ReplayTrigger", "fields": {}})
    for before, version in ((0, 0), (0, 0), (0, 1), (1, 1), (1, 1)):
        told.sampled(8, version=before)
        told.learned(version=version)
    third, fourth = told.update(3, shape), told.update(4, shape)
    assert whats(third)[1:] == [
        ("update", "learner"), ("round", "actor 0"), ("update", "learner"), ("round", "actor 0"),
    ]  # fmt: skip
    assert whats(fourth) == [("firing", "triggers"), ("update", "learner"), ("update", "learner")]
    assert "it published nothing: version 1 was there before" in fourth.said
    for found in (third, fourth):
        assert "its firing claims no rows" in found.said
    assert third.steps[:2] == told.version(1, shape).steps[:2]
    for number in (0, 6):
        with pytest.raises(Refused, match=f"no update {number} of learner: it has made 5 so far"):
            told.update(number, shape)


def test_updates_are_counted_without_preparations_and_those_of_others(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    shape = shape_of("prepare", learner_prepare=FULL, learner_update=FULL, model_update=FULL)
    told.sampled(8)
    told.learned(Claim(0, 0, 8), version=1, by="model")
    told.done(told.fired("learner.prepare", Claim(0, 0, 8)), "learner", version=0)
    told.done(told.fired("learner.update"), "learner", version=0, nothing="no row")
    told.learned(Claim(0, 0, 8), version=1)
    assert told.update(1, shape).steps[1].end == told.now
    assert told.update(1, shape, "model").steps[1].member == "model"
    monkeypatch.setattr("deploy.dashboard.paths._MOST_COUNTED", 9)
    with pytest.raises(Refused, match="ask for its version"):
        told.update(1, shape)


def test_rounds_under_a_version_are_those_of_its_learner(told: Told) -> None:
    several(told)
    found = told.version(6, SEVERAL, "model")
    assert [step.facts.get("stop") for step in found.steps] == [None, None, 16, None]
    assert [step.facts["version"] for step in found.steps[1::2]] == [6, 7]
    assert [step.facts.get("stop") for step in told.version(1, SEVERAL).steps] == [None, None, 24]
    assert told.version(1, SEVERAL, "") == told.version(1, SEVERAL, "learner")
    with pytest.raises(Refused, match="no learner 'other': choose learner, model"):
        told.version(6, SEVERAL, "other")


def test_the_version_of_a_learner_of_another_name_is_found_without_it(told: Told) -> None:
    told.learned(Claim(0, 0, 8), version=1, by="policy")
    found = told.version(1, shape_of(policy_update=FULL), "")
    assert whats(found) == [("firing", "triggers"), ("update", "policy")]


def test_versions_of_two_learners_that_are_equal_by_chance_are_of_both(told: Told) -> None:
    told.sampled(8, beside={"model": 0})
    told.learned(Claim(0, 0, 8), version=1, by="model")
    told.sampled(16, version=1, beside={"model": 1})
    found = told.version(1, SEVERAL, "model")
    assert whats(found)[1:] == [("update", "model"), ("round", "actor 0")]


def test_of_a_learner_that_no_round_names_no_rounds_are_listed(told: Told) -> None:
    told.sampled(8)
    told.learned(Claim(0, 0, 8), version=1, by="model")
    told.sampled(16, version=1)
    found = told.version(1, SEVERAL, "model")
    assert whats(found) == [("firing", "triggers"), ("update", "model")]
    assert "not known: none names model" in found.said


def test_who_ships_or_prepares_rows_does_not_hide_who_learns(told: Told) -> None:
    shape = shape_of("preprocess", transfer=FULL, learner_preprocess=FULL, learner_update=FULL)
    told.sampled(8)
    told.fired("transfer", Claim(0, 0, 8))
    prepared = told.fired("learner.preprocess", Claim(0, 0, 8))
    told.done(prepared, "learner", version=0)
    told.learned(Claim(0, 0, 8), version=1)
    found = told.row(0, shape)
    assert whats(found) == [
        ("round", "actor 0"), ("firing", "triggers"), ("firing", "triggers"),
        ("preparation", "learner"), ("firing", "triggers"), ("update", "learner"),
    ]  # fmt: skip
    assert (found.lag, found.said) == (0, "")
    assert found.steps[-1].facts["version"] == told.version(1, shape).steps[1].facts["version"]


def killed(told: Told, **again: Any) -> None:
    """Killed after its rows were written, and before it answered; then it samples a round more."""
    told.sampled(8)
    firing = told.fired("actors.sample")
    told.done(firing, "actor 0", recovered=True)
    if again:
        told.write(again=firing, by="actor 0", stop=16, asked=[32, 0], **again)
    told.write(died="actor 0", step=16, why="killed by signal 9")
    told.sampled(24, version=1)


def test_a_round_that_nobody_answered_for_is_found(told: Told) -> None:
    killed(told, version=0, rows=3)
    told.learned(Claim(0, 8, 16), version=2, lag=1)
    found = told.row(9)
    assert stations(found)[0] == ("round", "actor 0", "version 0", "again 2")
    assert found.steps[0].end == 4.0, "when it was noticed; the line itself has no time"
    assert "died before it answered" in found.said
    assert found.lag == 1
    assert whats(told.row(17))[0] == ("round", "actor 0")
    assert told.row(17).steps[0].facts["version"] == 1


def test_rounds_that_nobody_answered_for_are_listed(told: Told) -> None:
    told.sampled(8)
    told.learned(Claim(0, 0, 8), version=1)
    told.write(again=3, by="actor 0", version=1, stop=16, asked=[32], rows=3)
    assert whats(told.version(1))[1:] == [("update", "learner"), ("round", "actor 0")]


def test_without_a_line_of_its_round_a_row_is_of_no_round_that_is_known(told: Told) -> None:
    """Runs that cannot be replayed do not record what nobody answered for."""
    killed(told)
    told.learned(Claim(0, 8, 16), version=2, lag=1)
    found = told.row(9)
    assert whats(found) == [("firing", "triggers"), ("update", "learner")]
    assert "which round of actor 0 sampled it is not known" in found.said
    assert found.lag == 1, "its learner tells how old it was"


def test_rows_of_a_lost_node_are_those_that_were_sampled_again(told: Told) -> None:
    told.sampled(8)
    told.write(lost=3, actor=0, node="w1", **{"from": 4}, granted=16)
    told.write(lost=3, actor=1, node="w1", **{"from": 0}, granted=16)
    told.sampled(12, version=1)
    told.learned(Claim(0, 0, 8), version=2, lag=1)
    assert [told.row(row).steps[0].facts["version"] for row in (3, 5)] == [0, 1]


def test_rows_that_are_left_of_a_round_are_not_those_of_its_second_half(told: Told) -> None:
    told.sampled(8)
    told.write(again=2, by="actor 0", version=1, kept=12, stop=16, asked=[32])
    told.write(died="actor 0", step=12, why="its place on w1 is gone")
    told.sampled(16, version=2)
    assert [told.row(row).steps[0].facts["version"] for row in (11, 12)] == [1, 2]


def test_parts_of_a_resumed_run_are_not_mixed(told: Told) -> None:
    """Numbers of firings begin again: the second one of each part is another."""
    told.sampled(8)
    told.fired("learner.update", Claim(0, 0, 8))  # the run is killed before this is answered
    told.begins()
    told.sampled(16)
    told.learned(Claim(0, 8, 16), version=1)
    found = told.row(3)
    assert whats(found) == [("round", "actor 0"), ("firing", "triggers")]
    assert "no update with it has ended before the run was resumed" in found.said
    assert whats(told.row(9)) == [
        ("round", "actor 0"), ("firing", "triggers"), ("update", "learner"),
    ]  # fmt: skip


def test_a_row_that_was_sampled_again_when_the_run_went_on_is_that_of_one_part(told: Told) -> None:
    told.sampled(8)
    told.begins()
    told.sampled(8, version=3)
    told.learned(Claim(0, 0, 8), version=4)
    found = told.row(3)
    assert (found.steps[0].facts["version"], found.lag) == (3, 0)
    told.begins()
    told.sampled(16, version=4)
    assert told.version(4).said == ""
    assert [step.facts.get("stop") for step in told.version(4).steps] == [None, None]


def test_whether_a_row_outlived_a_resume_is_not_guessed(told: Told) -> None:
    told.sampled(8)
    told.begins()
    told.learned(Claim(0, 0, 8), version=1)
    found = told.row(3)
    assert whats(found) == [("firing", "triggers"), ("update", "learner")]
    assert "which round of actor 0 sampled it is not known" in found.said


def test_a_lag_is_stated_only_if_it_is_that_of_all_rows_claimed_with_it(told: Told) -> None:
    """Servers answer in the midst of a round with versions that its line does not name."""
    told.sampled(8)
    firing = told.fired("learner.update", Claim(0, 0, 8), version=3)
    told.done(firing, "learner", version=4, lag_mean=2.5, lag_max=3, lags=[(0, 2.5, 3)])
    found = told.row(3)
    assert found.lag is None
    assert "rows claimed with it: 2.5 on average, 3 at most" in found.said


def test_actors_that_only_bind_weights_do_not_mislead_the_search(told: Told) -> None:
    """Their lines have a ``stop`` of 0."""
    for number in range(1, 400):
        told.sampled(STEPS * number, version=number)
        for _ in range(3):
            told.done(told.fired("actors.sync"), "actor 0", version=number, stop=0, asked=[0])
    assert [told.row(STEPS * n - 1).steps[0].facts["version"] for n in (1, 57, 399)] == [1, 57, 399]


def test_what_is_too_far_away_is_not_said_never_to_have_come(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deploy.dashboard.paths._AROUND", 1 << 12)
    monkeypatch.setattr("deploy.dashboard.paths._BEFORE", 1 << 10)
    told.sampled(8)
    for number in range(2, 99):
        told.sampled(STEPS * number)
    assert "of the journal" in told.row(3).said
