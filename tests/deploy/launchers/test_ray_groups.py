"""Units as Ray's table of placement groups shows them; a real Ray is asked in the long tests."""

from __future__ import annotations

from typing import Any

import pytest

from deploy.launchers.cluster import HEAD
from deploy.launchers.engines.ray import units_in
from deploy.launchers.launcher import Unit

FRONT = "artos:lab:0123abcd:"


def group(
    name: str, state: str = "PENDING", scheduling: str = "QUEUED", **resources: float
) -> dict[str, Any]:
    return {
        "name": name, "state": state, "bundles": {0: resources},
        "stats": {"scheduling_state": scheduling},
    }  # fmt: skip


def test_groups_of_this_cluster_are_its_units() -> None:
    table = {
        "a1": group(f"{FRONT}head", "CREATED", "FINISHED", CPU=1.0),
        "a2": group(f"{FRONT}3", "RESCHEDULING", "FAILED_TO_COMMIT_RESOURCES", CPU=2.0),
        "a3": group(f"{FRONT}4", "REMOVED", "REMOVED", CPU=2.0),
        "a4": group("artos:lab:ffff0000:0", CPU=2.0),
        "a5": group("another's", CPU=2.0),
    }
    head, worker = units_in(table, FRONT)
    assert head == Unit(HEAD, "a1", "runs")
    assert (worker.index, worker.id, worker.state) == (3, "a2", "waits")


@pytest.mark.parametrize(
    ("scheduling", "resources", "why"),
    [
        ("NO_RESOURCES", {"CPU": 2.0}, "Ray has no room for CPU=2 now"),
        (
            "INFEASIBLE",
            {"CPU": 64.0, "GPU": 1.0},
            "no machine that Ray has can ever have room for CPU=64, GPU=1: it waits for a larger "
            "one",
        ),
        ("QUEUED", {"CPU": 0.5}, "Ray looks for room for CPU=0.5"),
        ("a state of a later Ray", {"CPU": 2.0}, "Ray looks for room for CPU=2"),
    ],
)
def test_what_a_group_waits_for_is_told(
    scheduling: str, resources: dict[str, float], why: str
) -> None:
    (unit,) = units_in({"a1": group(f"{FRONT}0", "PENDING", scheduling, **resources)}, FRONT)
    assert unit.why == why
