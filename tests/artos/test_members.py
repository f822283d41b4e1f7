"""Members by name: their text, their places on a board, and the table that both come from."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from named import EVALUATOR, LEARNER, acting

from artos.specs.members import ACTORS, CONTROL, TEMPLATE, Member, Members, Role


def test_members_are_called_what_journals_call_them() -> None:
    names = [str(member) for member in (LEARNER, EVALUATOR, *acting(0, 12), Member("learner", 1))]
    assert names == ["learner", "evaluator", "actor 0", "actor 12", "learner 1"]
    assert f"{Member(ACTORS, 3)}" == "actor 3"


@given(st.integers(1, 50), st.booleans())
def test_numbers_are_places_without_gaps_and_lead_back(actors: int, evaluates: bool) -> None:
    members = Members.of_run(actors, evaluates=evaluates)
    everyone = [LEARNER, *acting(*range(actors)), Member(TEMPLATE), Member(CONTROL)]
    assert [*members] == everyone + [EVALUATOR] * evaluates
    assert len(members) == len(everyone) + evaluates
    assert [members.number(member) for member in members] == [*range(len(members))]
    assert [members.member(number) for number in range(len(members))] == [*members]


@pytest.mark.parametrize(
    "stranger",
    [EVALUATOR, *acting(2), Member("learner", 1), Member(ACTORS, -1), Member("echo")],
    ids=str,
)
def test_who_is_not_in_the_table_has_no_place(stranger: Member) -> None:
    members = Members.of_run(2)
    assert stranger not in members
    with pytest.raises(KeyError):
        members.number(stranger)


def test_a_role_may_have_any_number_of_members() -> None:
    members = Members((Role("judges", 3, hosted=True), Role("learner", publishes=True)))
    assert members.of("judges") == tuple(Member("judges", rank) for rank in range(3))
    assert members.of("nobody") == ()
    assert (members.publisher, members.hosted) == (LEARNER, members.of("judges"))
    assert members.number(LEARNER) == 3


def test_learners_have_any_names_and_the_first_is_the_one_that_actors_act_with() -> None:
    members = Members.of_run(1, learners={"blue": 1, "red": 4}, evaluates=True)
    blue, red = Member("blue"), Member("red")
    assert members.publishers == (blue, red)
    assert members.publisher == blue
    assert members.hosted == (blue, red, EVALUATOR)
    assert [members.role(each).kind for each in (blue, red)] == ["learner", "learner"]
    assert [members.role(each).threads for each in (blue, red)] == [1, 4]


def test_each_learner_has_replicas_of_its_own() -> None:
    members = Members.of_run(1, learners={"blue": 1, "red": 1}, replicas={"red": 2})
    blue, red, second = Member("blue"), Member("red"), Member("red", 1)
    assert members.hosted == (blue, red, second)
    assert (members.together(blue), members.together(second)) == ((blue,), (red, second))
    assert [each for each in members.hosted if members.follows(each)] == [second]


def test_the_table_travels() -> None:
    members = Members.of_run(3, learners={"learner": 2}, evaluates=True)
    again = msgspec.json.decode(msgspec.json.encode(members), type=Members)
    assert again == members
    assert [*again] == [*members]
    assert again.role(LEARNER).threads == 2


@pytest.mark.parametrize("forged", [["learner", -1], ["", 0], ["a b", 0], ["actors", 2**31], [7]])
def test_what_is_no_member_is_refused(forged: list[object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(msgspec.msgpack.encode(forged), type=Member)
