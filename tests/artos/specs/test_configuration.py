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


def test_what_the_table_set_after_a_checkpoint_is_as_it_was_then() -> None:
    first = Configuration().changed({"env.level": 1.0}, by_table=True)
    second = first.changed({"env.level": 2.0}, by_table=True)
    assert second.back_to(Configuration()) == Configuration(3, {}, second.by_table)
    assert second.back_to(first).settings == {"env.level": 1.0}
    assert second.back_to(second) is second
    assert Configuration().back_to(first) is first, "it could not be written down when it was set"


def test_what_somebody_set_after_a_checkpoint_stays() -> None:
    then = Configuration().changed({"env.level": 1.0}, by_table=True)
    hand = then.changed({"env.level": 5.0, "learner.lr": 0.5})
    assert hand.back_to(then) is hand
    again = hand.changed({"env.level": 6.0}, by_table=True)
    assert again.back_to(then).settings == {"env.level": 5.0, "learner.lr": 0.5}
    assert again.without(["env.level"]).by_table == {}


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
