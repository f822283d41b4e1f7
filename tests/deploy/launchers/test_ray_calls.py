"""What becomes of units if Ray does not answer as it should; a real Ray is asked in long tests."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from test_ray_groups import group

from deploy.launchers import bringing_up
from deploy.launchers.cluster import Cluster
from deploy.launchers.engines.ray import Engine
from deploy.launchers.launcher import EngineFailed, Unit

FRONT = "artos:lab::"
WORKER = Unit(0, "a1", "runs")


class RayError(Exception):
    """As Ray has it."""


class GetTimeoutError(RayError):
    """As Ray has it."""


class RayStandIn(ModuleType):
    """Ray with these groups, whose actors answer what they are told by raising ``answers``."""

    exceptions = SimpleNamespace(RayError=RayError, GetTimeoutError=GetTimeoutError)
    __version__ = "3.0"
    PlacementGroupID = staticmethod(bytes.hex)

    def __init__(self) -> None:
        super().__init__("ray")
        self.groups = {"a1": group(f"{FRONT}0", "CREATED", "FINISHED", CPU=1.0)}
        self.actors = {f"{FRONT}0"}
        self.answers: list[Exception | None] = []
        self.told: list[bool] = []

    def is_initialized(self) -> bool:
        return True

    def get_actor(self, name: str) -> Any:
        if name not in self.actors:
            raise ValueError(name)

        def stop(*, now: bool) -> None:
            self.told.append(now)

        return SimpleNamespace(
            name=name, stop=SimpleNamespace(remote=stop), ended=SimpleNamespace(remote=lambda: None)
        )

    def get(self, answer: object, timeout: float) -> None:
        if self.answers and (error := self.answers.pop(0)) is not None:
            raise error

    def kill(self, actor: Any) -> None:
        self.actors.remove(actor.name)

    def placement_group_table(self) -> dict[str, Any]:
        return dict(self.groups)

    def remove_placement_group(self, group: str) -> None:
        del self.groups[group]


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> Iterator[RayStandIn]:
    stand_in = RayStandIn()
    util, groups = ModuleType("ray.util"), ModuleType("ray.util.placement_group")
    vars(util).update(
        placement_group_table=stand_in.placement_group_table,
        remove_placement_group=stand_in.remove_placement_group,
    )
    vars(groups)["PlacementGroup"] = lambda group: group
    for module in (stand_in, util, groups):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return stand_in


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return Engine(Cluster(name="lab", engine="ray", folder=str(tmp_path), least=1, most=1, slots=1))


def test_a_unit_that_was_not_told_to_end_is_said_to_be_so(ray: RayStandIn, engine: Engine) -> None:
    ray.answers = [RayError("it is unavailable for a moment")]
    with pytest.raises(EngineFailed, match="unavailable for a moment"):
        engine.stop(WORKER)
    ray.answers = [GetTimeoutError("it will hear it")]
    engine.stop(WORKER)
    ray.actors.clear()
    with pytest.raises(EngineFailed, match="its actor is not there"):
        engine.stop(WORKER)


def test_one_that_is_to_end_now_ends_whatever_its_actor_says(
    ray: RayStandIn, engine: Engine
) -> None:
    ray.answers = [RayError("it is dead")]
    engine.stop(WORKER, now=True)
    assert (ray.groups, ray.actors) == ({}, set())


def test_groups_of_a_cluster_that_could_not_be_started_are_removed(
    ray: RayStandIn, engine: Engine
) -> None:
    ray.groups |= {
        "a2": group(f"{FRONT}head", "PENDING", CPU=1.0),
        "a3": group("artos:lab:0123abcd:head", "CREATED", "FINISHED", CPU=1.0),
    }
    engine.clear()
    assert [*ray.groups] == ["a3"], "another one's stays"


def test_a_ray_that_does_not_say_what_it_drains_takes_nothing_back(
    ray: RayStandIn, engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    """What it drains is asked for first of all: no worker would ever be started."""
    assert [engine.notices(), engine.notices()] == [{}, {}]
    (said,) = caplog.messages
    assert said.startswith("Ray 3.0 does not say what it drains")
    drains(ray, until=0)
    assert engine.notices() == {0: 90.0}


def drains(ray: RayStandIn, until: int) -> None:
    """Have it say that it drains the worker's machine until then, in milliseconds since 1970."""
    client = SimpleNamespace(get_draining_nodes=lambda timeout: {"n1": until})
    worker = SimpleNamespace(global_worker=SimpleNamespace(gcs_client=client))
    vars(ray)["_private"] = SimpleNamespace(worker=worker)
    ray.groups["a1"]["bundles_to_node_id"] = {0: "n1"}


@pytest.mark.parametrize(("ahead", "left"), [(20.0, 20.0), (0.0, 90.0), (-300.0, 90.0)])
def test_a_machine_that_is_there_after_its_time_has_not_been_told_the_time(
    ahead: float, left: float, ray: RayStandIn, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its clock and ours differ: with no time at all its actors would be killed at once."""
    monkeypatch.setattr(time, "time", lambda: 1_000_000.0)
    drains(ray, until=int((1_000_000.0 + ahead) * 1000))
    assert engine.notices() == {0: left}


def test_down_tells_a_unit_again_that_was_not_told(
    ray: RayStandIn, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bringing_up, "_LOOK", 0.0)
    said: list[str] = []
    units = iter([[WORKER], [WORKER], [WORKER], [], []])
    monkeypatch.setattr(Engine, "units", lambda _: next(units))
    ray.answers = [RayError("not now"), RayError("not now"), None]
    bringing_up._end(engine, [0], 60.0, "1 workers", said.append)
    assert ray.told == [False] * 3
    assert said == ["ending 1 workers", "ray did not stop unit 0: not now; it is told again"]
