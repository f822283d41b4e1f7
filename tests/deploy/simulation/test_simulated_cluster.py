"""Runs on a simulated cluster: times worked out by hand, shares of slots, what never ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from artos.buffer.samplers.patterns import Episodes
from artos.errors import Refused
from deploy.simulation.cluster import Cluster
from deploy.simulation.durations import Constant, Duration, LogNormal
from deploy.simulation.workload import Starts, Workload
from head.records.shape import Shape
from triggers.base import Trigger
from triggers.counting import CountTrigger
from triggers.data_key import DataKeyTrigger
from triggers.primitives import ObjectKeyTrigger, TimeTrigger
from triggers.replay import RoundTrigger
from triggers.setting import SetTrigger

STEPS = 8


def workload(
    actors: int = 4, updates: int = 3, round_s: Duration | float = 1.0, update_s: float = 0.5,
    triggers: Mapping[str, Trigger] | None = None, **more: Any,
) -> Workload:  # fmt: skip
    table = triggers or {
        "learner.update": DataKeyTrigger(("rows",), size=STEPS),
        "actors.sample": ObjectKeyTrigger(),
    }
    encoded = {target: trigger.encode() for target, trigger in table.items()}
    shape = Shape(actors, 1, STEPS, encoded, total_updates=updates)
    took = round_s if not isinstance(round_s, float) else Constant(round_s)
    durations = {"learner.update": Constant(update_s), "actors.sample": took}
    return Workload(shape.plan("w"), durations, **more)


@pytest.mark.parametrize(
    ("nodes", "slots", "makespan"),
    [(1, 1, 3 * 4.5), (1, 2, 3 * 2.5), (2, 2, 3 * 1.5), (1, 8, 3 * 1.5), (4, 1, 3 * 1.5)],
)
def test_rounds_wait_for_slots_and_updates_for_rounds(
    nodes: int, slots: int, makespan: float
) -> None:
    found = Cluster(nodes, slots).run([workload()])
    assert found.makespan == pytest.approx(makespan)
    (run,) = found.usage
    assert (run.updates, run.steps) == (3, 3 * 4 * STEPS)
    assert run.cpu_seconds_held == pytest.approx(12.0)
    assert found.utilisation["slots"] == pytest.approx(12 / (makespan * nodes * slots), abs=1e-4)
    assert found.waits["slot"]["count"] == 12
    assert run.waits["slot"] == pytest.approx(12 * found.waits["slot"]["mean"], abs=1e-4)


def test_rounds_and_updates_overlap_where_lag_is_allowed() -> None:
    table = {
        "learner.update": DataKeyTrigger(("rows",), size=STEPS, max_lag=1),
        "actors.sample": ObjectKeyTrigger(),
    }
    both = workload(updates=10, update_s=1.0, triggers=table)
    assert Cluster(2, 2).run([both]).makespan == pytest.approx(11.0)  # 20.0 in turn


def test_on_one_machine_learner_and_actors_share_its_cpus() -> None:
    """Four rounds and an update at once, on four CPUs; the first rounds are alone."""
    table = {
        "learner.update": DataKeyTrigger(("rows",), size=STEPS, max_lag=1),
        "actors.sample": ObjectKeyTrigger(),
    }
    both = workload(updates=10, update_s=1.0, triggers=table)
    assert Cluster(1, 4).run([both]).makespan == pytest.approx(1 + 10 * 5 / 4)
    assert Cluster(1, 5).run([both]).makespan == pytest.approx(11.0)
    assert Cluster(1, 4, devices=1).run([both]).makespan == pytest.approx(11.0)


def test_learners_take_turns_on_a_device() -> None:
    two = workload(actors=1, updates=5, round_s=0.1, update_s=1.0, runs=2)
    apart = Cluster(2, 1, devices=2).run([two])
    assert apart.makespan == pytest.approx(5.5)
    shared = Cluster(2, 1, devices=1).run([two])
    assert shared.makespan == pytest.approx(0.1 + 10 * 1.0)
    assert [run.device_seconds_held for run in shared.usage] == pytest.approx([5.0, 5.0])
    assert shared.waits["device"]["longest"] > 0 == apart.waits["device"]["longest"]


def test_slots_follow_weights_while_both_want_them() -> None:
    heavy = workload(actors=40, round_s=0.1, update_s=1e-4, weight=3.0)
    light = replace(heavy, weight=1.0)
    first, second = Cluster(1, 2).run([heavy, light]).usage
    alone = 3 * 40 * 0.1 / 2
    assert first.ended == pytest.approx(alone * 4 / 3, rel=0.05)
    assert second.ended == pytest.approx(2 * alone, rel=0.02)


def test_members_start_first_and_runs_arrive_one_after_the_other() -> None:
    starts = Starts(process=2.0, learner=1.0, actors=(0.5, 3.0))
    found = Cluster(1, 4).run([workload(actors=2, starts=starts, runs=2, arrives=10.0, every=5.0)])
    # The learner's first version is there at once it has started; actor 1 is the last one.
    assert [run.ended for run in found.usage] == pytest.approx([10 + 2 + 3 + 4.5, 15 + 2 + 3 + 4.5])
    assert [run.arrived for run in found.usage] == [10.0, 15.0]


def test_the_head_begins_as_many_runs_as_there_is_room_for() -> None:
    found = Cluster(1, 1).run([workload(actors=1, runs=3, updates=2)])
    assert [run.ended for run in found.usage] == pytest.approx([3.0, 6.0, 9.0])
    assert found.waits["start"]["longest"] == pytest.approx(6.0)


@pytest.mark.long
def test_slots_that_wait_for_learners_are_of_use_to_more_runs() -> None:
    """32 runs of 2 actors on 8 slots; their updates take as long as their rounds."""
    runs = workload(actors=2, updates=40, round_s=LogNormal(1.0, 0.2), runs=32)
    runs = replace(runs, durations=runs.durations | {"learner.update": LogNormal(1.0, 0.2)})
    found = {many: Cluster(2, 4, 32, runs_per_slot=many).run([runs]) for many in (1, 2, 3)}
    ended = [found[many].makespan for many in (1, 2, 3)]
    assert ended == pytest.approx([672, 355, 332], rel=0.01), "as the page on clusters says"
    held = [found[many].utilisation["slots"] for many in (1, 2, 3)]
    assert held == pytest.approx([0.47, 0.90, 0.96], abs=0.02)
    assert found[3].waits["slot"]["longest"] < 60.0, "all take turns"


def test_runs_of_one_slot_share_it_by_weight() -> None:
    """Each has as much to do, 40 s of the slot: who is done leaves its share to the others."""
    runs = [workload(actors=8, updates=10, round_s=0.5, update_s=1e-4)] * 3
    runs = [replace(run, weight=weight) for run, weight in zip(runs, (4.0, 2.0, 1.0), strict=True)]
    found = Cluster(1, 1, devices=3, runs_per_slot=3).run(runs)
    ended = [run.ended for run in found.usage]
    assert ended == pytest.approx([40 * 7 / 4, 40 * 7 / 4 + 20 * 3 / 2, 120.0], rel=0.05)
    assert found.utilisation["slots"] == pytest.approx(1.0, abs=0.01)


def test_versions_come_every_few_updates_and_clocks_tick() -> None:
    table = {"learner.update": TimeTrigger(2.0), "actors.sample": ObjectKeyTrigger()}
    found = Cluster(2, 1).run([workload(actors=2, updates=6, triggers=table, sync=3)])
    (run,) = found.usage
    assert found.makespan == pytest.approx(6 * 2.0 + 0.5 + 1.0)
    # Versions 0, 1 and 2: an update by the clock counts once it is made, after its version.
    assert run.steps == 3 * 2 * STEPS


def test_the_seed_decides_what_is_drawn() -> None:
    drawn = workload(round_s=LogNormal(1.0, 0.5))
    one, same, other = (Cluster(2, 2, seed=seed).run([drawn]).makespan for seed in (1, 1, 2))
    assert one == same != other


def test_a_run_that_can_never_end_is_told() -> None:
    table = {
        "learner.update": DataKeyTrigger(("rows",), n=3, size=STEPS),
        "actors.sample": ObjectKeyTrigger(),
    }
    found = Cluster(1, 4).run([workload(actors=2, triggers=table), workload()])
    assert [run.run for run in found.usage] == ["w-2"]
    assert list(found.unfinished) == ["w-1"]
    assert "waits for" in found.unfinished["w-1"]


def test_what_cannot_be_simulated_is_refused_all_at_once() -> None:
    endless = workload(updates=0)
    waits = workload(triggers={"actors.sample": ObjectKeyTrigger("noise")})
    strange = workload()
    own = strange.plan.triggers | {"actors.sync": {"type": "/a/mine.py:Mine", "fields": {}}}
    strange = replace(strange, plan=Shape(1, 1, 1, own, total_updates=1).plan("strange"))
    with pytest.raises(Refused) as refused:
        Cluster(1, 1).run([endless, waits, strange])
    ends, object_, code = refused.value.faults
    assert "nothing ends it" in ends
    assert "'noise'" in object_
    assert "a trigger of your own" in code


def test_sizes_out_of_range_are_refused_all_at_once() -> None:
    with pytest.raises(Refused) as refused:
        Cluster(0, 0, -1, runs_per_slot=0)
    assert [fault.split()[0] for fault in refused.value.faults] == [
        "--nodes", "--slots", "--devices", "--runs-per-slot",
    ]  # fmt: skip


def test_whole_episodes_are_refused_with_what_to_simulate_instead() -> None:
    table = {
        "learner.update": DataKeyTrigger(("rows",), sample=Episodes(4)),
        "actors.sample": RoundTrigger(),
    }
    with pytest.raises(Refused, match="how long they are is not simulated; simulate a table that"):
        Cluster(1, 1).run([workload(triggers=table)])


@pytest.mark.parametrize("names", [("learner", "model"), ("policy",)], ids=str)
def test_learners_by_other_names_are_refused(names: tuple[str, ...]) -> None:
    table = {f"{name}.update": DataKeyTrigger(("rows",), size=STEPS) for name in names}
    with pytest.raises(Refused, match=f"{' and '.join(names)} learn: one learner is simulated"):
        Cluster(1, 1).run([workload(triggers={**table, "actors.sample": ObjectKeyTrigger()})])


def test_what_is_set_on_the_way_changes_nothing_unless_it_is_max_lag() -> None:
    table = {
        "learner.update": DataKeyTrigger(("rows",), size=STEPS),
        "actors.sample": ObjectKeyTrigger(),
    }
    once = SetTrigger(CountTrigger(episodes=9), 1)
    same = Cluster(1, 2).run([workload(triggers={**table, "set.env.level": once})])
    assert same.makespan == Cluster(1, 2).run([workload(triggers=table)]).makespan
    with pytest.raises(Refused, match="changes max_lag on the way"):
        Cluster(1, 2).run([workload(triggers={**table, "set.max_lag": once})])
