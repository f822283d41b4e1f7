"""What may be set while a run goes: refused by name and range, counted, divided by role."""

from __future__ import annotations

from artos.specs.configuration import Changeable, Configuration, faults

KNOWN = {
    "learner.lr": Changeable("lr", gt=0),
    "learner.clip": Changeable("clip", ge=0, le=1),
}


def test_each_change_is_another_configuration_and_the_others_stay() -> None:
    first = Configuration().changed({"learner.lr": 0.5})
    second = first.changed({"learner.clip": 0.0})
    assert (first.number, first.settings) == (1, {"learner.lr": 0.5})
    assert (second.number, second.of("learner")) == (2, {"lr": 0.5, "clip": 0.0})
    assert second.of("actors") == {}


def test_all_that_is_wrong_is_said_at_once_and_what_can_be_set() -> None:
    wrong = {"learner.lr": 0.0, "learner.clip": 1.5, "learner.cilp": 0.5, "gamma": 1.0}
    cannot = "cannot be set while the run goes (what can: learner.lr, learner.clip)"
    assert [*faults(wrong, KNOWN)] == [
        "learner.lr must be above 0, not 0",
        "learner.clip must be at most 1, not 1.5",
        f"learner.cilp {cannot}: did you mean learner.clip or learner.lr?",
        f"gamma {cannot}",
    ]


def test_where_nothing_can_be_set_that_is_said() -> None:
    (fault,) = faults({"learner.lr": 1.0}, {})
    assert "what can: nothing" in fault


def test_settings_that_are_left_out_are_a_change_too() -> None:
    found = Configuration(3, {"learner.lr": 0.5})
    assert found.without(["learner.clip"]) is found
    assert found.without(["learner.lr"]) == Configuration(4)
