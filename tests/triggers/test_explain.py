"""``artos explain``: the wiring as a table and a drawing in which every edge is to be found."""

from __future__ import annotations

from msgspec.structs import replace
from trigger_helpers import KEYS, new_plan

from artos.buffer.model_block import ObjectSpec
from artos.specs.actor_count import NoiseScale, Schedule
from artos.specs.keys import ArraySpec
from triggers import DataKeyTrigger, ObjectKeyTrigger, TimeTrigger, TransferTrigger
from triggers.explain import explain
from triggers.table import Table

PPO: Table = {
    "learner.update": DataKeyTrigger(KEYS, n=4, size=16, max_lag=0),
    "actors.sample": ObjectKeyTrigger("model_param"),
}
PIPELINE: Table = {
    "transfer": TransferTrigger((("rewards", "dones"), ("observations",)), size=16),
    "learner.preprocess": DataKeyTrigger(("rewards", "dones"), n=4, size=16),
    "learner.update": DataKeyTrigger(("observations",), n=4, size=16) & TimeTrigger(0.5),
    "actors.sync": ObjectKeyTrigger(every=3, probability=0.5),
    "actors.sample": ObjectKeyTrigger(),
}


def drawing(table: Table) -> list[str]:
    return explain(new_plan(table), table).partition("what fires what:")[2].splitlines()


def stations(table: Table) -> list[str]:
    """Boxes and edges in the order in which data and control run through them."""
    words = [line.strip(" |+->v") for line in drawing(table)]
    return [word.partition("  ")[0] for word in words if word.startswith("[") or "  on " in word]


def test_ppo_reads_from_the_actors_round_to_the_actors() -> None:
    assert stations(PPO) == [
        "[4 actors]", "[replay buffer]", "learner.update", "[learner]", "[model block]",
        "actors.sample",
    ]  # fmt: skip
    text = " ".join(line.strip(" |") for line in drawing(PPO))
    assert "16 rows of observations, rewards from 4 actors, at most 0 versions old" in text
    assert "every version of model_param" in text


def test_an_actor_without_an_address_is_of_nothing() -> None:
    first = explain(replace(new_plan(PPO), env=""), PPO).splitlines()[0]
    assert first == "test: 4 actors x 2 environments"


def test_a_pipeline_shows_every_edge_where_it_leaves() -> None:
    assert stations(PIPELINE) == [
        "[4 actors]", "[cache buffer]", "transfer", "[replay buffer]", "learner.preprocess",
        "learner.update", "[learner]", "[model block]", "actors.sync", "actors.sample",
    ]  # fmt: skip
    text = " ".join(explain(new_plan(PIPELINE), PIPELINE).split())
    assert "16 rows of rewards, dones then observations" in text
    assert "from 4 actors, and every 0.5 s" in text
    assert "versions 0, 3, ... of model_param, each actor by 0.5" in text


def test_the_facts_and_keys_are_there() -> None:
    text = explain(new_plan(PPO), PPO)
    for words in (
        "4 actors x 2 environments",
        "rounds of 16 steps",
        "128 over all",
        "when full: wait",
    ):
        assert words in text
    assert "DataKeyTrigger & TimeTrigger" in explain(new_plan(PIPELINE), PIPELINE)
    assert [line.split() for line in text.splitlines() if line.startswith("observations ")] == [
        ["observations", "2x4", "float32", "32"]
    ]


def test_a_number_of_actors_that_changes_is_told() -> None:
    table: Table = {**PPO, "learner.update": DataKeyTrigger(KEYS, size=16)}
    text = explain(new_plan(table, scaling=Schedule({0: 2, 5: 4})), table)
    for words in (
        "2 to 4 actors x 2 environments",
        "scaling: 2 actors, 4 from update 5 on",
        "64 to 128 over all",
        "[2 to 4 actors]",
        "from all actors",
    ):
        assert words in text
    assert "scaling" not in explain(new_plan(PPO), PPO)


def test_objects_beside_the_weights_are_listed_with_who_reads_them() -> None:
    table: Table = {
        **PPO,
        "learner.help": ObjectKeyTrigger("loss"),
        "learner.more": TimeTrigger(1.0) & ObjectKeyTrigger("loss"),
    }
    names = {"noise_scale": (), "loss": (), "visits": (16, 2), "mean": (3,)}
    objects = [ObjectSpec.sized(n, [ArraySpec("value", s, "float64")], 1) for n, s in names.items()]
    plan = new_plan(table, scaling=NoiseScale(2, 4))
    wanted = ("loss", "visits", "noise_scale")
    text = explain(replace(plan, objects=(*plan.objects, *objects), wanted=wanted), table)
    block = next(part for part in text.split("\n\n") if part.startswith("object key"))
    assert [line.split(maxsplit=3) for line in block.splitlines()[2:]] == [
        ["noise_scale", "1", "float64", "scaling"],
        ["loss", "1", "float64", "learner.help, learner.more"],
        ["visits", "16x2", "float64", "object_keys"],
        ["mean", "3", "float64", "nothing"],
    ]
    assert "object key" not in explain(new_plan(PPO), PPO)


def test_what_nothing_fires_is_said() -> None:
    table: Table = {"learner.update": TimeTrigger(1.0)}
    assert "nothing fires the actors" in explain(new_plan(table), table)


def test_long_conditions_wrap_within_a_hundred_columns() -> None:
    for table in (PPO, PIPELINE):
        assert max(map(len, explain(new_plan(table), table).splitlines())) <= 100
