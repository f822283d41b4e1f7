"""A user's own scaling policy: looked at at the door, asked once an update, remembered."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec
import pytest
from test_scaling import plan_of

from artos.errors import Refused
from artos.runs.loader import load_object
from artos.scaling.faults import ScalingFailed
from artos.scaling.policy import Custom, Observation, ScalingPolicy
from artos.specs.actor_count import Kept, NoiseScale, ReturnPlateau, actors_of
from head.run.concerns.scaling import Scaler


@dataclass
class Stairs(ScalingPolicy):
    """One actor more whenever it was asked ``every`` times; then down again."""

    least: int = 2
    most: int = 4
    every: int = 2
    names: tuple[str, ...] = ("a", "b")

    def decide(self, seen: Observation, memory: dict[str, Any]) -> int:
        memory["asked"] = memory.get("asked", 0) + 1
        memory["last"] = [seen.update, seen.actors, seen.rows]
        return self.least + memory["asked"] // self.every % (1 + self.most - self.least)


@dataclass
class Answering(ScalingPolicy):
    """Says what it is told."""

    least: int = 2
    most: int = 4
    answer: Any = 2

    def decide(self, seen: Observation, memory: dict[str, Any]) -> int:
        if seen.update:
            memory |= seen.metrics
            if memory.pop("raise", False):
                raise ZeroDivisionError("in decide")
        return self.answer  # type: ignore[no-any-return]


@dataclass
class Powers(Answering):
    least: int = 2
    most: int = 8

    def numbers(self) -> tuple[int, ...]:
        return (2, 4, 8)


def scaler_of(policy: ScalingPolicy, kept: Kept | None = None) -> Scaler:
    """As in a supervisor: from a plan that travelled, and from what a manifest holds."""
    plan = plan_of(actors_of(policy))
    kept = msgspec.json.decode(msgspec.json.encode(kept), type=Kept | None)  # type: ignore[arg-type]
    own = plan.scaling.policy(load_object) if isinstance(plan.scaling, Custom) else None
    return Scaler(plan, own, kept)


# -- travelling ------------------------------------------------------------------------------------


def test_it_travels_with_its_arguments() -> None:
    own = actors_of(Stairs(most=6, every=3))
    assert isinstance(own, Custom)
    assert (own.first, own.least, own.most, own.numbers()) == (2, 2, 6, (2, 3, 4, 5, 6))
    assert own.words() == "2 to 6 actors as Stairs decides"
    again = plan_of(own).scaling
    assert again == own
    assert actors_of(again) == own
    made = own.policy(partial(load_object, folder=""))
    assert type(made).__name__ == "Stairs"
    assert vars(made) == vars(Stairs(most=6, every=3))


class NoDataclass(ScalingPolicy):
    least, most = 1, 2

    def decide(self, seen: Observation, memory: dict[str, Any]) -> int:
        return 1


@dataclass
class Undecided(ScalingPolicy):
    least: int = 1
    most: int = 2


@dataclass
class Gaps(Undecided):
    most: float = 2.5  # type: ignore[assignment]
    names: Any = field(default_factory=set)


@dataclass
class Odd(Answering):
    choices: tuple[int, ...] = ()

    def numbers(self) -> tuple[int, ...]:
        return self.choices


@dataclass
class Late(Answering):
    @property
    def first(self) -> int:
        return 7


@dataclass
class Forgetful(Answering):
    memory: Any = None

    def decide(self, seen: Observation, memory: dict[str, Any]) -> int:
        memory["it"] = self.memory and math.inf
        return 2


def local() -> ScalingPolicy:
    @dataclass
    class Inside(Answering):
        pass

    return Inside()


class Sly(NoiseScale, frozen=True):
    def decide(self, seen: Observation, memory: dict[str, Any]) -> int:
        return 1


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (NoDataclass, ["NoDataclass(…): put @dataclass above class NoDataclass"]),
        (Undecided, ["write decide(self, seen, memory) in class Undecided"]),
        (Gaps, ["most must be a whole number", "arguments must be plain", "write decide"]),
        (local, ["write class Inside at the top level of its file"]),
        (lambda: Stairs(least=0), ["at least 1 actor, not 0"]),
        (lambda: Stairs(5, 2), ["5..2 holds no number"]),
        (Odd, ["numbers() must be a tuple of rising numbers from 1 on, not ()"]),
        (lambda: Odd(choices=(4, 2)), ["rising numbers", "(4, 2)"]),
        (lambda: Odd(choices=(0, 2)), ["rising numbers"]),
        (Late, ["first is 7, which is none of its numbers()"]),
        (lambda: Answering(answer=2.0), ["decide raised TypeError", "whole number", "2.0"]),
        (lambda: Answering(answer=None), ["not None"]),
        (lambda: Answering(answer=math.inf), ["arguments must be plain data", "come back"]),
        (lambda: Forgetful(memory=True), ["memory must hold plain data", "inf"]),
        (lambda: Sly(1, 2), ["put @dataclass above class Sly"]),
    ],
)
def test_what_cannot_decide_is_refused(
    policy: Callable[[], ScalingPolicy], words: list[str]
) -> None:
    with pytest.raises(Refused) as refused:
        actors_of(policy())
    said = "\n".join(refused.value.faults)
    assert [text for text in words if text not in said] == [], said


def test_a_class_that_has_changed_meanwhile_is_refused() -> None:
    own = actors_of(Stairs())
    assert isinstance(own, Custom)
    with pytest.raises(Refused, match=r"cannot be built again.*names"):
        own.policy(lambda source: NoiseScale)
    with pytest.raises(Refused, match="is not a ScalingPolicy"):
        own.policy(lambda source: dict)


# -- deciding --------------------------------------------------------------------------------------


def test_it_is_asked_once_an_update_and_remembers() -> None:
    scaler = scaler_of(Stairs())
    assert [scaler.at(update, {}, None) for update in range(7)] == [2, 3, 3, 4, 4, 2, 2]
    assert scaler.at(6, {}, None) == 2
    assert scaler.kept.memory == {"asked": 7, "last": [6, 2, 10]}
    assert not scaler.exact
    assert scaler.ahead(6) is None


def test_a_hand_overrules_it() -> None:
    scaler = scaler_of(Stairs())
    scaler.set(4)
    assert [scaler.at(update, {}, None) for update in range(3)] == [4, 4, 4]
    assert scaler.kept.memory == {}


@pytest.mark.parametrize(("answer", "number"), [(-5, 2), (2, 2), (3, 2), (7, 4), (8, 8), (99, 8)])
def test_an_answer_that_is_none_of_its_numbers_is_the_next_smaller(
    answer: int, number: int
) -> None:
    assert scaler_of(Powers(answer=answer)).at(0, {}, None) == number


@pytest.mark.parametrize(
    ("metrics", "words"),
    [
        ({"raise": 1.0}, "ZeroDivisionError: in decide"),
        ({"loss": math.inf}, "memory must hold plain data"),
        ({"loss": object()}, "memory must hold plain data"),
    ],
)
def test_what_goes_wrong_names_the_policy_and_leaves_what_is_kept(
    metrics: dict[str, Any], words: str
) -> None:
    scaler = scaler_of(Answering())
    scaler.at(0, {}, None)
    scaler.at(1, {"fine": 1.0}, None)
    kept = scaler.kept
    with pytest.raises(ScalingFailed, match="Answering failed when it was asked about") as failed:
        scaler.at(2, metrics, None)
    assert words in failed.value.trace
    assert failed.value.update == 2
    assert scaler.kept == kept
    assert kept.memory == {"fine": 1.0}


# -- resuming --------------------------------------------------------------------------------------


def means(update: int) -> float:
    """Rises, stops, rises once more, stops."""
    return float(min(update, 6) + (20 if update > 15 else 0))


@pytest.mark.parametrize("cut", range(1, 30, 4))
@pytest.mark.parametrize(
    "policy",
    [
        Stairs(),
        NoiseScale(2, 16, every=3, band=0.25),
        ReturnPlateau(1, 9, step=1, window=3, gain=0.1),
    ],
    ids=["own", "noise_scale", "plateau"],
)
def test_a_resumed_run_decides_as_if_it_had_gone_on(policy: ScalingPolicy, cut: int) -> None:
    def at(scaler: Scaler, update: int) -> int:
        return scaler.at(update, {}, means(update), {"noise_scale": 7.0 * update})

    whole = scaler_of(policy)
    expected = [at(whole, update) for update in range(30)]
    assert len(set(expected)) > 2
    first = scaler_of(policy)
    numbers = [at(first, update) for update in range(cut)]
    second = scaler_of(policy, first.kept)
    # At its start a run asks, before there are metrics, for the version it resumes from.
    assert second.at(cut - 1, {}, None) == numbers[-1]
    numbers += [at(second, update) for update in range(cut, 30)]
    assert numbers == expected
    assert second.kept == whole.kept


def test_what_somebody_decided_by_hand_holds_on() -> None:
    scaler = scaler_of(Stairs())
    scaler.set(3)
    assert scaler_of(Stairs(), scaler.kept).at(9, {}, None) == 3


def test_other_actors_begin_afresh() -> None:
    scaler = scaler_of(Stairs())
    for update in range(4):
        scaler.at(update, {}, None)
    assert scaler_of(Stairs(most=5), scaler.kept).kept.memory == {}
    assert scaler_of(ReturnPlateau(1, 9), scaler.kept).at(4, {}, 1.0) == 1
