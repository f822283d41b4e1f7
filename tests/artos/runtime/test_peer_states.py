"""What a learner is told of another one: all of its newest version, and nothing stays pinned."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from artos.buffer.model_block import ModelBlock, ObjectSpec
from artos.buffer.object_region import ObjectRegion
from artos.runs.plan import Beside, Plan, Site
from artos.runtime.other_learners import PeerStates, first_peer
from artos.runtime.taping import Tape
from artos.specs.keys import MODEL_PARAM, PARAMS, ArraySpec
from artos.specs.members import Member
from artos.specs.reference import Reference

PLAN = Plan(
    reference=Reference(""), name="two", env="", seed=0, actors=2, envs=1, steps=1, capacity=1,
    on_full="wait", total_steps=0, data_keys=(), objects=(), layout=(), triggers={}, methods={},
    learner="one", beside=(Beside("two", 1),),
)  # fmt: skip
MOMENTS = "learner.moments"


def two_in(folder: Path) -> tuple[PeerStates, ObjectRegion]:
    """What ``one`` has of ``two``, and the region of that one."""
    site = Site(str(folder), Member("one"), PLAN.members)
    arrays = ArraySpec(PARAMS, (2,)), ArraySpec(MOMENTS, (2,))
    spec = ObjectSpec.sized(MODEL_PARAM, arrays, first_peer(PLAN) + 2)
    region = ModelBlock.create(site.model_of("two"), [spec])[MODEL_PARAM]
    return PeerStates(PLAN, site, Tape()), region


def test_it_is_all_of_one_version_and_a_copy(tmp_path: Path) -> None:
    peers, region = two_in(tmp_path)
    assert peers("two") == {}, "there is no version yet"
    for number in (1.0, 2.0):
        region.publish({PARAMS: np.full(2, number), MOMENTS: np.full(2, -number)})
    found = peers("two")
    assert {name: array.tolist() for name, array in found.items()} == {
        PARAMS: [2.0, 2.0], MOMENTS: [-2.0, -2.0]
    }  # fmt: skip
    for _ in range(region.spec.slots + 1):  # none of the slots is held
        region.publish({PARAMS: np.zeros(2), MOMENTS: np.zeros(2)})
    assert found[PARAMS].tolist() == [2.0, 2.0]


def test_what_a_killed_process_had_pinned_is_let_go(tmp_path: Path) -> None:
    _, region = two_in(tmp_path)
    region.publish({PARAMS: np.zeros(2), MOMENTS: np.zeros(2)})
    region.pin(first_peer(PLAN))
    PeerStates(PLAN, Site(str(tmp_path), Member("one"), PLAN.members), Tape())
    assert "pins=[-1, -1, -1, -1, -1]" in repr(region)


@pytest.mark.parametrize("name", ["one", "three"])
def test_itself_and_strangers_are_no_peers(name: str, tmp_path: Path) -> None:
    peers, _ = two_in(tmp_path)
    with pytest.raises(KeyError, match=name):
        peers(name)
