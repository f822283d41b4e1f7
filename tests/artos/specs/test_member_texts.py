"""The text of a member, and what is read from it."""

from __future__ import annotations

import pytest

from artos.specs.members import ACTORS, Member, actor_of, in_order


@pytest.mark.parametrize("rank", [0, 7, 10**9 - 1])
def test_the_number_of_an_actor_is_in_its_text(rank: int) -> None:
    assert actor_of(str(Member(ACTORS, rank))) == rank


@pytest.mark.parametrize(
    "text", ["learner", "learner 1", "actors 1", "actor", "actor -1", "actor 1 ", "actor ²", "",
             "actor 99999999999999999999"],
)  # fmt: skip
def test_other_texts_are_no_actors(text: str) -> None:
    assert actor_of(text) is None


def test_actors_come_last_and_by_number() -> None:
    given = ["actor 10", "learner 1", "actor 2", "evaluator", "learner"]
    assert in_order(given) == ["evaluator", "learner", "learner 1", "actor 2", "actor 10"]
