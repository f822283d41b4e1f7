"""What users are shown: views become JSON and come back; what has another form is refused."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from artos.errors import Refused
from artos.protocol import codec
from artos.protocol.control import RunNews
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
RUNS = [
    IN_SHORT,
    msgspec.structs.replace(IN_SHORT, facts=None),
    msgspec.structs.replace(IN_SHORT, facts=FACTS),
    msgspec.structs.replace(IN_SHORT, facts=FACTS, damage="", summary={"steps": 12}),
    msgspec.structs.replace(IN_SHORT, facts=None, summary=None),
]


def through_json(plain: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(plain))
    return found


@pytest.mark.parametrize("run", RUNS)
def test_a_run_comes_back_as_it_was(run: RunView) -> None:
    assert RunView.of(run.plain) == RunView.of(through_json(run.plain)) == run


def test_a_cluster_comes_back_as_it_was() -> None:
    quotas = {"user ann": {"slots": QuotaView(3, 4)}}
    node = NodeView(name="w1", alive=True, slots=4, runs={"r1": 2})
    view = ClusterView(nodes=(node,), quotas=quotas, runs=tuple(RUNS), version="1")
    assert ClusterView.of(through_json(view.plain)) == view


def test_what_is_not_known_is_not_in_the_json() -> None:
    assert not {"facts", "damage", "summary"} & IN_SHORT.plain.keys()
    before = msgspec.structs.replace(IN_SHORT, facts=None)
    assert (before.plain["facts"], before.progress) == ({}, None)
    on_one_machine = msgspec.structs.replace(IN_SHORT, facts=RunFacts())
    assert on_one_machine.plain["facts"] == msgspec.to_builtins(Status())


@pytest.mark.parametrize("plain", [{"name": "r1"}, {"name": 1, "state": "done"}])
def test_data_of_another_form_are_refused(plain: dict[str, Any]) -> None:
    with pytest.raises(Refused, match="use the ARTOS that the head has"):
        RunView.of(plain)


def test_news_of_a_run_have_no_number_that_json_lacks() -> None:
    news = RunNews("r1", "running", facts=FACTS)
    assert codec.decode(codec.encode(news)) == news
    with pytest.raises(ValueError, match="plain values"):
        RunNews("r1", "running", facts=RunFacts(metrics={"loss": float("nan")}))
