"""Draws from data sets: how live rows pace them, and what is refused before a run."""

from __future__ import annotations

from typing import Any

import pytest
from trigger_helpers import arrived, feed, fire, joined, new_plan

from artos.buffer.samplers.patterns import Sequences, Uniform
from artos.runs.plan import Plan
from artos.specs.actor_count import Manual
from artos.specs.data import DataSet
from artos.specs.keys import DataKey
from triggers import DataKeyTrigger, ReplayTrigger, RoundTrigger
from triggers.events import Learned, Published
from triggers.table import Table, decode_trigger
from triggers.verify.verifier import faults

UPDATE = "learner.update"
KEYS = (
    DataKey("observations", (4,)), DataKey("rewards"), DataKey("terminations", (), "bool"),
    DataKey("truncations", (), "bool"), DataKey("valid", (), "bool"), DataKey("ages", (), "uint8"),
)  # fmt: skip
ROW = ("observations", "rewards")
DEMOS = DataSet("demos", "/data/demos.npz", 100, 1, KEYS)
WEIGHTS, DONE = Published("model_param", 0), Learned(UPDATE)


def planned(
    replay: ReplayTrigger | None, *others: DataKeyTrigger, actors: int = 4, **changes: Any
) -> tuple[Plan, Table]:
    table: Table = {UPDATE: replay} if replay else {}
    table |= {f"learner.update{n}": other for n, other in enumerate(others)}
    table["actors.sample"] = RoundTrigger()
    given = {"data": (DEMOS,), "data_keys": KEYS, "capacity": 640, "on_full": "overwrite"}
    methods = {"actors": ("sample",), "learner": ("update", "update0")}
    plan = new_plan(
        table, actors=actors, scaling=Manual(actors, actors), methods=methods, **given | changes
    )
    return plan, table


def replay_of(**given: Any) -> ReplayTrigger:
    _, table = planned(ReplayTrigger(ROW, Uniform(16), **given))
    replay = table[UPDATE]
    assert isinstance(replay, ReplayTrigger)
    return replay


def test_only_live_rows_are_counted_in_the_ratio() -> None:
    """Each of 4 rounds is 32 transitions, each drawn once: 12 a batch."""
    replay = replay_of(source={"demos": 4}, after=0, slack=12.0)
    feed(replay, [*joined(4), WEIGHTS])
    fired = 0
    for actor in range(4):
        fired += len(fire(replay, arrived(actor, 16)))
        for _ in range(20):
            fired += len(fire(replay, DONE))
    assert fired == 128 // 12 + 1
    assert replay.draw.data == {"demos": 4}
    assert replay.draw.live == 12


def test_data_alone_is_drawn_as_soon_as_the_learner_is_free() -> None:
    replay = replay_of(source="demos")
    assert len(fire(replay, WEIGHTS)) == 2  # one is made, and the next one waits
    for _ in range(100):
        assert len(fire(replay, DONE)) == 1
    assert fire(replay, Learned(UPDATE, drew=False)) == []


def test_data_alone_holds_no_actor_back() -> None:
    _, table = planned(ReplayTrigger(ROW, Uniform(16), source="demos"))
    rounds = table["actors.sample"]
    assert isinstance(rounds, RoundTrigger)
    granted = feed(rounds, [*joined(4), *(arrived(0, 16 * n) for n in range(1, 50))])
    assert sum(firing.rounds for firing in granted) == 4 * 2 + 49


def test_the_table_says_how_many() -> None:
    words = replay_of(source={"demos": 4}).words()
    assert "4 of them of demos; each live row 1 times" in words
    assert replay_of(source="demos").words().endswith("; as soon as the learner is free")


def test_a_source_travels() -> None:
    replay = ReplayTrigger(ROW, Uniform(16), source={"demos": 4})
    encoded = replay.encode()
    assert decode_trigger(encoded, lambda _: None) == replay


def test_what_is_declared_and_drawn_is_fine() -> None:
    for source in ("demos", {"demos": 4}):
        plan, table = planned(ReplayTrigger(ROW, Uniform(16), source=source))
        assert faults(plan, table) == []
    plan, table = planned(ReplayTrigger(ROW, Uniform(16), source="demos"), actors=0)
    assert faults(plan, table) == []


@pytest.mark.parametrize(
    ("given", "changes", "words"),
    [
        ({"source": "dmos"}, {}, "no data set 'dmos': did you mean demos?"),
        ({"source": "demos"}, {"data": ()}, 'give it data={"demos": Rows("FILE.npz")}'),
        ({"source": {"demos": 17}}, {}, "17 picks of a batch of 16"),
        ({"source": {"demos": 0}}, {}, "at least 1"),
        ({"source": "demos", "ratio": 4.0, "max_lag": 3}, {}, "ratio, max_lag: about live rows"),
        ({"source": {"demos": 4}}, {"actors": 0}, 'actors=0 brings none: write source="demos"'),
        (
            {"source": {"demos": 4}, "sample": Uniform(16, her=0.5)}, {},
            "her relabels rows of actors alone, and data sets are drawn here: leave out source",
        ),
        ({}, {"actors": 0, "data": ()}, "actors=0 brings none"),
        ({}, {}, "data['demos']: no trigger draws from it"),
        (
            {"source": "demos"}, {"data": (DataSet("demos", "/d.npz", 9, 1, KEYS[:4]),)},
            "lacks 'valid', 'ages'",
        ),
        (
            {"source": "demos", "sample": Sequences(4, length=100)}, {},
            "has 100 rows, and a draw takes 100 and the next one",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_drawn_is_refused(
    given: dict[str, Any], changes: dict[str, Any], words: str
) -> None:
    replay = ReplayTrigger(**{"keys": ROW, "sample": Uniform(16)} | given)
    plan, table = planned(replay, **changes)
    assert [fault for fault in faults(plan, table) if words in fault]


def test_rows_of_actors_that_are_not_there_are_not_waited_for() -> None:
    claims = DataKeyTrigger(ROW, size=16)
    plan, table = planned(ReplayTrigger(ROW, Uniform(16), source="demos"), claims, actors=0)
    assert [each for each in faults(plan, table) if "waits for rows of actors" in each]


def test_a_source_that_is_none_is_refused() -> None:
    with pytest.raises(TypeError, match='name a data set, source="demos"'):
        ReplayTrigger(ROW, Uniform(16), source=64)  # type: ignore[arg-type]
