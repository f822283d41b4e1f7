"""What users are shown: views travel as they are, and their JSON has what is known."""

from __future__ import annotations

import msgspec
import pytest

from artos.protocol import codec
from artos.protocol.control import ClusterAnswer, RunAnswer, RunNews
from artos.protocol.message import Message
from artos.protocol.views import (
    ClusterView,
    LagView,
    NodeView,
    QuotaView,
    RunFacts,
    RunView,
    Status,
)

FACTS = RunFacts(
    steps=12, metrics={"loss": None}, usage={"waits/slot": 1.5}, nodes={"w1": [0, 2]}, actors=2,
    lag_by_actor={"0": LagView(0.5, 1), "2": LagView()}, faults=0, malformed=3,
)  # fmt: skip
IN_SHORT = RunView(name="r1", state="running", nodes={"w1": 2}, actors=2)
RUNS = (
    IN_SHORT,
    msgspec.structs.replace(IN_SHORT, facts=None),
    msgspec.structs.replace(IN_SHORT, facts=FACTS),
    msgspec.structs.replace(IN_SHORT, facts=FACTS, damage="", summary={"steps": 12}),
    msgspec.structs.replace(IN_SHORT, facts=None, summary=None),
)
CLUSTER = ClusterView(
    nodes=(NodeView(name="w1", alive=True, slots=4, runs={"r1": 2}),),
    quotas={"user ann": {"slots": QuotaView(3, 4)}},
    runs=RUNS,
    version="1",
)


@pytest.mark.parametrize(
    "message",
    [
        *(RunAnswer(run=run) for run in RUNS),
        ClusterAnswer(cluster=CLUSTER),
        RunNews("r1", "running", facts=FACTS),
    ],
)
def test_a_view_travels_as_it_is(message: Message) -> None:
    assert codec.decode(codec.encode(message)) == message


def test_what_is_not_known_is_not_in_the_json() -> None:
    assert not {"facts", "damage", "summary"} & IN_SHORT.plain.keys()
    before, over = RUNS[1].plain, RUNS[4].plain
    assert (before["facts"], over["facts"], over["summary"]) == ({}, {}, None)
    assert RUNS[1].progress is None
    on_one_machine = msgspec.structs.replace(IN_SHORT, facts=RunFacts())
    assert on_one_machine.plain["facts"] == msgspec.to_builtins(Status())
    assert CLUSTER.plain["runs"] == [run.plain for run in RUNS]


def test_what_json_lacks_is_not_sent() -> None:
    with pytest.raises(ValueError, match="plain values"):
        RunNews("r1", "running", facts=RunFacts(metrics={"loss": float("nan")}))
    with pytest.raises(ValueError, match="plain values"):
        RunAnswer(run=msgspec.structs.replace(IN_SHORT, summary={"steps": float("inf")}))
