"""The first version that actors act with is told once what they read with it is there, too."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from artos.buffer.model_block import ModelBlock, ObjectSpec
from artos.buffer.object_region import ObjectRegion
from artos.specs.keys import MODEL_PARAM, PARAMS, ArraySpec
from artos.specs.members import Member
from head.run.coordination.books import Invocations
from head.run.coordination.outline import Outline
from head.run.coordination.versions import Versions

NAMES = ("policy", "rival", "judge")


def region_in(path: Path) -> ObjectRegion:
    spec = ObjectSpec.sized(MODEL_PARAM, (ArraySpec(PARAMS, (1,)),), 1)
    return ModelBlock.create(path, [spec])[MODEL_PARAM]


@pytest.fixture
def learners(tmp_path: Path) -> dict[str, Versions]:
    outline, invocations = Outline(8), Invocations()
    found = {
        name: Versions(
            Member(name), region_in(tmp_path / name), {}, outline, invocations,
            f"{name}/" * (name != "policy"),
        )
        for name in NAMES
    }  # fmt: skip
    found["policy"].awaits([found["rival"], found["judge"]])
    for each in found.values():
        each.begin()
    return found


def publish(learner: Versions) -> list[str]:
    """Publish a version; returns what is told of then."""
    learner.model.publish({PARAMS: np.zeros(1, np.float32)})
    return told(learner)


def told(learner: Versions) -> list[str]:
    return [f"{event.key} {event.version}" for event in learner.news()]


@pytest.mark.parametrize("order", [NAMES, NAMES[::-1], ("rival", "policy", "judge")], ids=str)
def test_it_waits_for_all_of_them(order: tuple[str, ...], learners: dict[str, Versions]) -> None:
    assert [told(each) for each in learners.values()] == [[], [], []], "somebody woke too early"
    first, second = (publish(learners[name]) for name in order[:2])
    assert "model_param 0" not in (*first, *second)
    own = [] if order[2] == "policy" else [f"{order[2]}/model_param 0"]
    assert publish(learners[order[2]]) == [*own, "model_param 0"]
    assert publish(learners["policy"]) == ["model_param 1"], "from then on each is told at once"
    assert publish(learners["rival"]) == ["rival/model_param 1"]


def test_versions_made_meanwhile_are_told_one_after_the_other(
    learners: dict[str, Versions],
) -> None:
    for _ in range(2):
        assert publish(learners["policy"]) == []
    publish(learners["rival"])
    news = publish(learners["judge"])
    assert news == ["judge/model_param 0", "model_param 0", "model_param 1"]
