"""Who plays which agents of a game."""

from __future__ import annotations

from artos.actors.casting import Casting, Past

NAMES = ("adversary_0", "agent_0", "agent_1")


def test_the_first_pattern_that_fits_holds() -> None:
    cast = Casting(NAMES, {"agent_1": "odd", "agent_?": "good", "*": "bad"})
    assert [cast.player(name) for name in NAMES] == ["bad", "good", "odd"]
    assert cast.played_by("good") == ("agent_0",)
    assert cast.players == ("odd", "good", "bad")
    assert [*cast.faults(("odd", "good", "bad"), 0)] == []


def test_policies_that_are_learned_come_before_past_ones() -> None:
    cast = Casting(("a", "b"), {"a": Past("self"), "b": "self"})
    assert cast.players == ("self", Past("self"))


def test_a_past_is_of_a_policy_that_plays() -> None:
    cast = Casting(NAMES, {"agent_0": "a", "agent_1": Past("b"), "*": "b"})
    assert cast.pasts == (Past("b"),)
    assert [*cast.faults(("a", "b"), 1)] == []
    (fault,) = cast.faults(("a", "b"), 0)
    assert fault == "Past(policy='b') plays, and no past version is kept: set history, e.g. 8"
    (fault,) = Casting(NAMES, {"agent_0": "a", "*": Past("b")}).faults(("a",), 1)
    assert "is no past of a policy that plays: name one of a, or have 'b' play an agent" in fault


def test_who_swaps_plays_every_agent_in_some_game() -> None:
    cast = Casting(("a", "b", "c"), {"a": "first", "*": "others"}, swap=True)
    assert cast.places("first", 4).tolist() == [0, 5, 7, 9]
    others = cast.places("others", 4).tolist()
    assert sorted([*others, 0, 5, 7, 9]) == [*range(12)]
    assert Casting(("a", "b"), {"a": "x", "b": "y"}).places("x", 3).tolist() == [0, 2, 4]


def test_a_policy_that_plays_nobody_is_told_why() -> None:
    (fault,) = Casting(NAMES, {"*": "all", "agent_0": "one"}).faults(("all", "one"), 0)
    assert fault == "'one' plays no agent: put 'agent_0' before patterns that fit them all"
