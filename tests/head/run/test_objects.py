"""What a learner publishes beside the weights fires triggers, and scaling policies read it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from elastic_loop import NOISE, STEPS, full_batch, troupe
from helpers import unrolled
from named import LEARNER

from artos.buffer.model_block import ModelBlock, ObjectSpec
from artos.learners.publisher import Publisher
from artos.specs.actor_count import Manual, NoiseScale, Schedule
from artos.specs.keys import ArraySpec, ObjectKey
from head.run.concerns.sampling import Sampling
from head.run.coordination.versions import Objects
from triggers import DataKeyTrigger, ObjectKeyTrigger, TimeTrigger
from triggers.events import Published
from triggers.journal import read
from triggers.table import Table


@pytest.mark.parametrize(("every", "versions"), [(1, [0, 1, 2]), (2, [0, 2])])
def test_each_version_fires_its_trigger_and_no_other(
    every: int, versions: list[int], tmp_path: Path
) -> None:
    table = full_batch() | {"actors.sync": ObjectKeyTrigger(NOISE, every=every)}
    with troupe(Manual(1, 1), table, 50, tmp_path) as run:
        run.begin()
        for value in (3.0, 3.0, 5.0):  # the same value again is a new version
            run.publish_object(NOISE, value)
            run.coordinator.look(LEARNER)
            run.coordinator.look(LEARNER)
        assert run.coordinator.version == 0, "the weights have versions of their own"
    lines = [*read(tmp_path / "journal.jsonl")]
    assert [line["version"] for line in lines if line.get("trigger") == "actors.sync"] == versions


def test_a_clock_bears_the_version_of_the_weights() -> None:
    clock = TimeTrigger(1.0)
    for event in (Published("model_param", 3), Published(NOISE, 9)):
        clock.check(event, 0.0)
    firing = clock.check(Published(NOISE, 10), 2.0)
    assert firing is not None
    assert firing.version == 3


def test_a_policy_sees_what_the_update_published_that_makes_the_version(tmp_path: Path) -> None:
    with troupe(NoiseScale(1, 4, every=1), full_batch(), 30, tmp_path) as run:
        run.objects = lambda update: {NOISE: 3.0 * STEPS}  # type: ignore[method-assign]
        run.begin()
        run.run()
        counts = unrolled(run.coordinator.monitor.actors_by_update)
        # The first update publishes 3 with version 1, and rounds of version 1 are of 3 actors, as
        # soon as they are ready.
        assert [update for name, update in run.said if name == "prepare"] == [1, 2]
        assert counts[0] == 1
        assert counts[-1] == 3
        assert run.coordinator.objects.values() == {NOISE: 3.0 * STEPS}


def by_object() -> Table:
    """Actors bind weights with each version of an object."""
    update = DataKeyTrigger(("rewards",), size=STEPS)
    return full_batch() | {"learner.update": update, "actors.sync": ObjectKeyTrigger(NOISE)}


def test_who_binds_with_an_object_gets_the_weights_of_its_update(tmp_path: Path) -> None:
    with troupe(Manual(1, 1), by_object(), 50, tmp_path) as run:
        run.begin()
        run.publish_object(NOISE, 3.0)
        run._publish(1, 0)
        run.coordinator.look(LEARNER)
        assert run.coordinator.concern(Sampling).binding.oldest(0) == 1


def test_an_object_is_announced_before_its_weights_whenever_they_come(tmp_path: Path) -> None:
    with troupe(Manual(1, 1), by_object(), 50, tmp_path) as run:
        run.begin()
        news = run.coordinator.objects.news

        def and_meanwhile_the_learner_publishes() -> Iterator[Published]:
            yield from news()
            if run._node.weights.version == 0:
                run.publish_object(NOISE, 3.0)
                run._publish(1, 0)

        run.coordinator.objects.news = and_meanwhile_the_learner_publishes  # type: ignore[method-assign]
        run.coordinator.look(LEARNER)
        run.coordinator.look(LEARNER)
    fired = [line["trigger"] for line in read(tmp_path / "journal.jsonl") if "trigger" in line]
    assert fired == ["actors.sample", "actors.sync", "actors.sample"]


def test_a_run_that_goes_on_announces_the_newest_alone(tmp_path: Path) -> None:
    keys = (ObjectKey("a"), ObjectKey("b", (2,)))
    specs = [ObjectSpec.sized(k.name, [ArraySpec("value", k.shape, k.dtype)], 1) for k in keys]
    regions: dict[str, Any] = ModelBlock.create(tmp_path / "model", specs).objects
    publish = Publisher(keys, regions)
    for value in range(3):
        publish("a", value)
    objects = Objects(regions)
    assert [*objects.news()] == [Published("a", 2, value=(2.0,), again=True)]
    publish("b", [1, 2])
    publish("b", [3, 4])
    assert [*objects.news()] == [Published("b", 0), Published("b", 1, value=(3.0, 4.0))]
    assert [*objects.news()] == []
    resumed = Objects(regions)
    resumed.resumed(["a"])
    again = [(event.key, event.again) for event in resumed.news()]
    assert again == [("a", False), ("b", True)], "triggers did not know of the newest a"
    values = objects.values()
    assert values["a"] == 2.0
    np.testing.assert_array_equal(values["b"], [3, 4])
    publish("b", [5, 6])
    np.testing.assert_array_equal(values["b"], [3, 4], "what was read is a copy")


def test_actors_that_join_with_a_version_are_not_what_its_rounds_waited_for(
    tmp_path: Path,
) -> None:
    with troupe(Schedule({0: 2, 3: 3, 5: 2}), full_batch(), 0, tmp_path, updates=8) as run:
        run.begin()
        run.run()
        run.coordinator.ports.journal.flush()
        lines = [*read(tmp_path / "journal.jsonl")]
    fired = [line for line in lines if line.get("trigger") == "actors.sample"]
    assert {line["after"] for line in fired} == {"learner"}
