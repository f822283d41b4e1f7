"""The table of triggers as a picture says how far each learner is, whatever it is called."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import triggers
from artos.buffer.samplers.patterns import Uniform
from artos.protocol.views import RunFacts
from deploy.dashboard.wiring import Edge, wiring
from head.records.shape import Shape
from triggers import (
    CountTrigger,
    DataKeyTrigger,
    First,
    ObjectKeyTrigger,
    Once,
    PrewarmTrigger,
    ReplayTrigger,
    RequestTrigger,
    RoundTrigger,
    SetTrigger,
    TimeTrigger,
    TransferTrigger,
    Trigger,
    UpdateTrigger,
    ValueTrigger,
)

WATCHED: list[tuple[str, Trigger, set[str]]] = [
    ("learner.update", DataKeyTrigger(("obs",), size=8), {"rows"}),
    ("learner.update", ReplayTrigger(("obs",), Uniform(8)), {"rows"}),
    ("actors.sample", RoundTrigger(), {"rows"}),
    ("actors.sample", ObjectKeyTrigger(), {"learner/model_param"}),
    ("actors.prewarm", PrewarmTrigger(), {"clock"}),
    ("transfer", TransferTrigger(("obs",)), {"rows"}),
    ("transfer", TransferTrigger(("obs",), condition=TimeTrigger(2.0)), {"rows", "clock"}),
    ("server.answer", RequestTrigger(4, 0.01), {"actors"}),
    ("evaluator.play", UpdateTrigger(10), {"learner/model_param"}),
    ("evaluator.play", TimeTrigger(60.0), {"clock"}),
    ("evaluator.play", CountTrigger(rows=100), {"rows"}),
    ("evaluator.play", CountTrigger(episodes=100), {"actors/episodes_ended"}),
    ("evaluator.play", ValueTrigger("mean_return_100", above=1.0), {"actors/mean_return_100"}),
    ("evaluator.play", ObjectKeyTrigger("best"), {"learner/best"}),
    ("evaluator.play", First(UpdateTrigger(10), 2), {"learner/model_param"}),
    ("set.env.level", SetTrigger(Once(CountTrigger(rows=8)), 2.0), {"rows"}),
    ("evaluator.play", UpdateTrigger(10) & TimeTrigger(9.0), {"learner/model_param", "clock"}),
    ("evaluator.play", CountTrigger(rows=10) | TimeTrigger(9.0), {"rows", "clock"}),
]
"""For each class of ours what a trigger of it waits for."""


def edges(table: dict[str, Any], **facts: object) -> list[Edge]:
    """Those of a table beside a learner and actors."""
    base = {
        "learner.update": DataKeyTrigger(("obs",), size=8).encode(),
        "actors.sample": ObjectKeyTrigger().encode(),
    }
    found = wiring(Shape(2, 1, 8, base | table), RunFacts(**facts), {})  # type: ignore[arg-type]
    names = {node.name for node in found.nodes}
    assert {name for edge in found.edges for name in (edge.begin, edge.end)} <= names
    return found.edges


@pytest.mark.parametrize(
    ("target", "trigger", "wanted"), WATCHED, ids=lambda each: getattr(each, "name", None)
)
def test_an_edge_begins_where_its_trigger_looks(
    target: str, trigger: Trigger, wanted: set[str]
) -> None:
    found = edges({target: trigger.encode()})
    assert {edge.begin for edge in found if edge.target == target} == wanted


def test_no_class_of_ours_is_forgotten() -> None:
    known = {type(part) for _, each, _ in WATCHED for part in (each, *each.parts())}
    ours = [getattr(triggers, name) for name in triggers.__all__]
    assert {each for each in ours if inspect.isclass(each) and issubclass(each, Trigger)} <= {
        *known, Trigger,
    }  # fmt: skip


def test_those_of_a_users_own_are_guessed_by_their_settings() -> None:
    def watched(target: str, **fields: object) -> set[str]:
        found = edges({target: {"type": "mine.py:RoundTrigger", "fields": fields}})
        return {edge.begin for edge in found if edge.target == target}

    assert watched("learner.update", size=8) == {"rows"}
    assert watched("server.answer", n=2) == {"actors"}
    assert watched("evaluator.play", key="best") == {"learner/best"}
    assert watched("evaluator.play", ahead=2) == {"clock"}
    inner = {"type": "triggers.replay:RoundTrigger", "fields": {"ahead": 2}}
    assert watched("actors.sample", sub=inner) == {"rows"}


def test_what_actors_are_waited_for_they_write() -> None:
    found = edges({"evaluator.play": CountTrigger(episodes=9).encode()})
    assert ("actors", "actors/episodes_ended") in {(edge.begin, edge.end) for edge in found}


@pytest.mark.parametrize(
    ("fires", "target"), [(RoundTrigger(), ""), (ObjectKeyTrigger(), "actors.sample")]
)
def test_weights_reach_actors_whatever_fires_their_rounds(fires: Trigger, target: str) -> None:
    found = edges({"actors.sample": fires.encode()}, steps_per_second=50.0)
    to_actors = [e.target for e in found if (e.begin, e.end) == ("learner/model_param", "actors")]
    assert to_actors == [target]
    (writes,) = (e for e in found if (e.begin, e.end) == ("actors", "rows"))
    assert writes.per_second == 50


def test_a_short_name_is_of_the_first_learner() -> None:
    names = ("policy", "model")
    table = {f"{name}.update": DataKeyTrigger(("obs",), size=8).encode() for name in names}
    shape = Shape(2, 1, 8, table | {"evaluator.play": UpdateTrigger(5).encode()})
    facts = RunFacts(learners={"model.updates": 20.0})  # type: ignore[call-arg]
    (play,) = (e for e in wiring(shape, facts, {}).edges if e.target == "evaluator.play")
    assert play.begin == "policy/model_param"


def said(*learners: str, **facts: object) -> dict[str, str]:
    """What is said of each role and store of a table of these learners."""
    table = {f"{name}.update": DataKeyTrigger(("obs",), size=8).encode() for name in learners}
    fire = ObjectKeyTrigger(f"{learners[0]}/model_param")
    for name in learners[1:]:
        fire = fire | ObjectKeyTrigger(f"{name}/model_param")  # type: ignore[assignment]
    shape = Shape(2, 1, 8, table | {"actors.sample": fire.encode()})
    found = wiring(shape, RunFacts(updates=7, version=8, **facts), {})  # type: ignore[arg-type]
    return {node.name: node.said for node in found.nodes}


def test_a_learner_of_another_name_is_the_first_one() -> None:
    found = said("policy")
    assert (found["policy"], found["policy/model_param"]) == ("7 updates", "version 8")


def test_others_are_told_by_their_names() -> None:
    numbers = {"model.updates": 20.0, "model.version": 21.0}
    found = said("policy", "model", learners=numbers)
    assert (found["policy"], found["model"]) == ("7 updates", "20 updates")
    assert found["policy/model_param"] == "version 8"
    assert found["model/model_param"] == "version 21"


def test_of_whom_nothing_is_told_nothing_is_said() -> None:
    found = said("learner", "model")
    assert (found["learner"], found["model"], found["model/model_param"]) == ("7 updates", "", "")
    found = said("policy", "model")
    assert (found["policy"], found["model"]) == ("", "")
