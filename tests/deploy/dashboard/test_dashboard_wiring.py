"""The table of triggers as a picture says how far each learner is, whatever it is called."""

from __future__ import annotations

from artos.protocol.views import RunFacts
from deploy.dashboard.wiring import wiring
from head.records.shape import Shape
from triggers import DataKeyTrigger, ObjectKeyTrigger


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
