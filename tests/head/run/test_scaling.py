"""``actors=`` in all its forms, and the decisions that follow from it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from artos.errors import Refused
from artos.runs.plan import Plan
from artos.specs.actor_count import (
    Actors,
    Manual,
    NoiseScale,
    ReturnPlateau,
    Schedule,
    actors_of,
    parse_actors,
)
from artos.specs.reference import Reference
from head.run.concerns.scaling import LEAD, Scaler

FORMS: list[tuple[str, Actors, int, int]] = [
    ("4", Manual(4, 4), 4, 4),
    (" 4..16 ", Manual(4, 16), 4, 16),
    ("0:4,5:8,10:12", Schedule({0: 4, 5: 8, 10: 12}), 4, 12),
    ("5:2, 0:8", Schedule({0: 8, 5: 2}), 8, 8),
    ("noise_scale:2..16", NoiseScale(2, 16), 2, 16),
    ("plateau:2..16", ReturnPlateau(2, 16), 2, 16),
]


@pytest.mark.parametrize(("text", "meant", "first", "most"), FORMS)
def test_every_form_is_understood(text: str, meant: Actors, first: int, most: int) -> None:
    actors = parse_actors(text)
    assert (actors, actors.first, actors.most) == (meant, first, most)
    assert actors_of(text) == actors_of(meant) == meant
    assert min(actors.numbers()) == actors.least
    assert max(actors.numbers()) == most


def test_numbers_and_mappings_are_forms_too() -> None:
    assert actors_of(3) == Manual(3, 3)
    assert actors_of("0") == actors_of(0) == Manual(0, 0)
    assert actors_of({0: 4, 5: 8}) == actors_of({"0": 4, "5": 8}) == Schedule({0: 4, 5: 8})


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("four", ["actors='four': write a number (4)", "0:4,5:8", "noise_scale:2..16", "4..16"]),
        ("", ["write a number"]),
        (2.5, ["actors=2.5: write a number"]),
        (True, ["actors=True: write a number"]),
        (None, ["write a number"]),
        (-3, ["actors must be at least 1, not -3"]),
        ("0..4", ["at least 1 actor, not 0"]),
        ("8..2", ["8..2 holds no number"]),
        ("noise:2..4", ["no policy 'noise' (have noise_scale, plateau)"]),
        ("plateau:0..-1", ["at least 1 actor, not 0", "0..-1 holds no number"]),
        ("1:4,5:8", ["begins with update 0"]),
        ("-1:4,0:8", ["begins with update 0"]),
        ("0:4,5:0", ["at least 1, not 0 from update 5 on"]),
        ("0:4,0:8", ["names an update twice"]),
        ("0:4,5", ["write a number"]),
        ("0:4,5:x", ["write a number"]),
        ({}, ["write a number"]),
        (Schedule({3: 0}), ["not 0 from update 3", "begins with update 0"]),
        (NoiseScale(2, 4, share=0, every=0, band=-1), ["share must be", "every must", "band must"]),
        (ReturnPlateau(2, 4, step=0, window=0, gain=-1), ["step must", "window must", "gain must"]),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_in_words(setting: Any, words: list[str]) -> None:
    with pytest.raises(Refused) as refused:
        actors_of(setting)
    said = "\n".join(refused.value.faults)
    assert [text for text in words if text not in said] == [], said


def plan_of(scaling: Actors | None, actors: int = 0) -> Plan:
    plan = Plan(
        reference=Reference(""), name="", env="", seed=0, actors=actors or scaling.most, envs=2,  # type: ignore[union-attr]
        steps=5, capacity=5, on_full="wait", total_steps=1, data_keys=(), objects=(), layout=(),
        triggers={}, methods={}, scaling=scaling,
    )  # fmt: skip
    return msgspec.json.decode(msgspec.json.encode(plan), type=Plan)


@pytest.mark.parametrize("scaling", [form[1] for form in FORMS])
def test_it_travels_in_a_plan(scaling: Actors) -> None:
    assert plan_of(scaling).at_work == scaling


def test_a_plan_without_any_has_all_its_actors_at_work() -> None:
    assert plan_of(None, 3).at_work == Manual(3, 3)


# -- deciding ----------------------------------------------------------------------------------


def decisions(scaler: Scaler, updates: int, noise: float = 0.0, mean: float | None = None):  # type: ignore[no-untyped-def]
    return [scaler.at(update, {}, mean, {"noise_scale": noise}) for update in range(updates)]


def test_a_schedule_is_known_an_update_ahead() -> None:
    scaler = Scaler(plan_of(Schedule({0: 4, 2: 8, 4: 3})))
    assert decisions(scaler, 6) == [4, 4, 8, 8, 3, 3]
    assert [scaler.ahead(update) for update in range(5)] == [4, 8, 8, 3, 3]
    assert scaler.exact


def test_the_next_rise_of_a_schedule_is_known_some_updates_ahead() -> None:
    scaler = Scaler(plan_of(Schedule({0: 4, 2: 8, 4: 3, 6: 5, 6 + 2 * LEAD: 6})))
    assert [scaler.rise(update) for update in range(6)] == [
        (8, 2), (8, 1), None, None, (5, 2), (5, 1),
    ]  # fmt: skip
    assert [scaler.rise(5 + LEAD + more) for more in range(2)] == [None, (6, LEAD)]
    scaler.set(4)
    assert scaler.rise(0) is None


def test_a_run_that_is_resumed_begins_in_the_middle_of_its_schedule() -> None:
    assert Scaler(plan_of(Schedule({0: 4, 2: 8}))).at(7, {}, None) == 8


def test_a_number_stays_until_a_hand_changes_it() -> None:
    scaler = Scaler(plan_of(Manual(4, 16)))
    assert decisions(scaler, 3, 1e9, 5.0) == [4, 4, 4]
    scaler.set(9)
    assert decisions(scaler, 3, 1e9, 5.0) == [9, 9, 9]
    assert scaler.ahead(3) is None
    assert not scaler.exact


def test_a_hand_overrules_a_schedule() -> None:
    scaler = Scaler(plan_of(Schedule({0: 4, 2: 8})))
    scaler.set(5)
    assert decisions(scaler, 4) == [5, 5, 5, 5]
    assert scaler.ahead(1) is None
    assert not scaler.exact


def test_the_noise_scale_asks_for_as_many_rows_within_bounds() -> None:
    """An actor samples 2 x 5 rows a round."""
    policy = NoiseScale(2, 16, every=1)
    for noise, expected in ((80.0, 8), (1e9, 16), (0.0, 2), (25.0, 2), (26.0, 3)):
        assert decisions(Scaler(plan_of(policy)), 1, noise) == [expected]
    assert decisions(Scaler(plan_of(NoiseScale(2, 16, share=0.5, every=1))), 1, 80.0) == [4]


def test_the_noise_scale_is_looked_at_now_and_then_and_small_changes_ignored() -> None:
    scaler = Scaler(plan_of(NoiseScale(2, 16, every=3, band=0.25)))
    assert scaler.at(0, {}, None) == 2, "nothing is known yet"
    noises = [80, 80, 80, 99, 99, 99, 101, 101, 101, 60, 60]
    found = [
        scaler.at(n, {}, None, {"noise_scale": float(noise)}) for n, noise in enumerate(noises, 1)
    ]
    assert found == [2, 2, 8, 8, 8, 8, 8, 8, 8, 8, 8]
    assert scaler.at(12, {}, None, {"noise_scale": 60.0}) == 8, "6 is a quarter less, not more"
    assert scaler.at(15, {}, None, {"noise_scale": 50.0}) == 5


def test_the_plateau_adds_actors_when_the_return_stops_rising() -> None:
    scaler = Scaler(plan_of(ReturnPlateau(2, 5, step=2, window=3, gain=0.1)))
    assert decisions(scaler, 4) == [2, 2, 2, 2], "no episode has ended"
    means = [10.0, 10.5, 10.9, 11.2, 11.3, 11.3, 11.3, 11.3, 11.3, 11.3, 20.0]
    found = [scaler.at(update, {}, mean) for update, mean in enumerate(means, 4)]
    assert found == [2, 2, 2, 2, 2, 2, 4, 4, 4, 5, 5]


def test_the_plateau_of_negative_returns() -> None:
    scaler = Scaler(plan_of(ReturnPlateau(1, 9, step=1, window=2, gain=0.1)))
    found = [scaler.at(n, {}, mean) for n, mean in enumerate([-20.0, -19.0, -18.5, -16.0, -16.0])]
    assert found == [1, 1, 2, 2, 2]
