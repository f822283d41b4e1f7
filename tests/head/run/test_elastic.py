"""The number of actors changes in a run: no row is lost, no update waits for who is to come."""

from __future__ import annotations

from pathlib import Path

import pytest
from elastic_loop import STEPS, fifo, full_batch, troupe
from helpers import unrolled
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from named import acting

from artos.clock import ManualClock
from artos.protocol.invocations import Invoke
from artos.scaling.faults import CannotScale
from artos.specs.actor_count import Manual, NoiseScale, ReturnPlateau, Schedule
from head.run.concerns.scaling import LEAD, Scaling
from triggers import DataKeyTrigger, ObjectKeyTrigger
from triggers.journal import read
from triggers.table import Table

STAIRS = Schedule({0: 2, 3: 4, 6: 3, 9: 1, 11: 4})


def rounds_of(schedule: Schedule, updates: int, lead: int = 0) -> list[int]:
    """How many actors take part in the round that each update learns from."""
    return [schedule.at(max(0, update - lead)) for update in range(updates)]


def test_a_schedule_holds_from_its_update_on(tmp_path: Path) -> None:
    expected = rounds_of(STAIRS, 14)
    with troupe(STAIRS, full_batch(), sum(expected), tmp_path) as run:
        run.begin()
        run.run()
        assert run.learned_from == [list(range(count)) for count in expected]
        assert unrolled(run.coordinator.monitor.actors_by_update) == expected
        assert set(run.unused().values()) == {0}
    changes = [
        (x["version"], x["actors"]) for x in read(tmp_path / "journal.jsonl") if "actors" in x
    ]
    assert changes == [(3, 4), (6, 3), (9, 1), (11, 4)]


def test_newcomers_are_made_in_the_time_that_is_left_until_they_are_wanted(tmp_path: Path) -> None:
    with troupe(Schedule({0: 1, LEAD + 2: 3}), full_batch(), 60, tmp_path) as run:
        run.sleepers |= {*acting(1, 2)}
        run.begin()
        run.run(updates=1)
        assert run.said == []
        run.clock.advance(10.0)
        run.run(updates=2)
        assert run.said == [("prepare", 1), ("prepare", 2)]
        assert run.within == {1: [LEAD * 10.0], 2: [LEAD * 10.0]}
        run.clock.advance(20.0)
        run.wake(1)
        run.run(updates=3)
        assert run.within == {1: [LEAD * 10.0], 2: [LEAD * 10.0, (LEAD - 1) * 20.0]}
        run.wake(2)
        run.run(updates=LEAD + 5)
        assert run.said == [("prepare", 1), ("prepare", 2)], "each once"
        assert [len(actors) for actors in run.learned_from[LEAD + 1 :]] == [1, 3, 3, 3]


def test_with_more_actors_an_update_is_expected_to_take_longer(tmp_path: Path) -> None:
    with troupe(Schedule({0: 1, 2: 3, 5: 4}), full_batch(), 60, tmp_path) as run:
        run.begin()
        run.run(updates=1)
        run.clock.advance(10.0)
        run.run(updates=2)
        assert run.within[3] == [3 * 10.0 * 3 / 1]


def test_those_who_were_there_before_come_back_an_update_before(tmp_path: Path) -> None:
    with troupe(Schedule({0: 3, 2: 1, 6: 3}), full_batch(), 99, tmp_path) as run:
        run.begin()
        run.run(updates=4)
        assert run.said == [("retire", 1), ("retire", 2)]
        run.run(updates=5)
        assert run.said[2:] == [("prepare", 1), ("prepare", 2)]


def test_while_nobody_knows_how_long_an_update_takes_there_is_time(tmp_path: Path) -> None:
    with troupe(Schedule({0: 1, 3: 2}), full_batch(), 20, tmp_path) as run:
        run.begin()
        run.run(updates=0)
        assert run.within[1] == [3600.0]


def test_who_is_asked_for_by_hand_has_no_time_any_more(tmp_path: Path) -> None:
    with troupe(Schedule({0: 1, 9: 4}), full_batch(), 20, tmp_path) as run:
        run.sleepers = {*acting(1, 2)}
        run.begin()
        run.run(updates=1)
        run.coordinator.concern(Scaling).scale(3)
        assert [run.within[actor][-1] for actor in (1, 2, 3)] == [0.0, 0.0, 3600.0]
        assert run.said[-1] == ("retire", 3)


def test_who_is_wanted_by_a_policy_is_wanted_now(tmp_path: Path) -> None:
    with troupe(ReturnPlateau(1, 2, step=1, window=1), full_batch(), 20, tmp_path) as run:
        run.begin()
        run.coordinator.monitor.returns.append(10.0)  # and never any better
        for update in range(1, 9):
            run.run(updates=update)
            run.clock.advance(10.0)
        assert run.within == {1: [0.0]}


def test_nobody_takes_time_over_the_next_update(tmp_path: Path) -> None:
    with troupe(Schedule({0: 1, 1: 2}), full_batch(), 20, tmp_path) as run:
        run.begin()
        run.run(updates=0)
        assert run.within[1] == [0.0]


def test_a_newcomer_that_is_given_time_is_not_taken_for_hung(tmp_path: Path) -> None:
    with troupe(Schedule({0: 1, 2: 2}), full_batch(), 20, tmp_path) as run:
        run.sleepers = {*acting(1)}
        run.begin()
        run.clock.advance(100.0)
        run.run(updates=1)
        roster = run.coordinator.roster
        assert run.within[1][-1] == 100.0
        run.clock.advance(190.0)
        assert [*roster.late(100.0)] == []
        run.clock.advance(20.0)
        assert [*roster.late(100.0)] == [*acting(1)]


SCHEDULES = st.dictionaries(st.integers(1, 12), st.integers(1, 4), max_size=5).flatmap(
    lambda later: st.integers(1, 4).map(lambda first: Schedule({0: first} | later))
)


@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(schedule=SCHEDULES, lead=st.integers(0, 3), seed=st.integers(0, 2**32))
def test_rounds_under_way_are_finished_by_those_who_began_them(
    schedule: Schedule, lead: int, seed: int, tmp_path: Path
) -> None:
    """However far actors are ahead and whoever is slow: nothing is lost, nothing is too old."""
    expected = rounds_of(schedule, 15, lead)
    with troupe(schedule, full_batch(lead), sum(expected), tmp_path, seed) as run:
        run.begin()
        run.run()
        assert [len(active_actors) for active_actors in run.learned_from] == expected
        assert set(run.unused().values()) == {0}
        assert (run.coordinator.monitor.rows_lost, run.coordinator.monitor.rows_stale) == (0, 0)
        assert max(run.lags) <= lead


@settings(
    max_examples=30,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(schedule=SCHEDULES, seed=st.integers(0, 2**32))
def test_first_come_first_served_uses_the_rows_of_who_left(
    schedule: Schedule, seed: int, tmp_path: Path
) -> None:
    with troupe(schedule, fifo(), 40, tmp_path, seed) as run:
        run.begin()
        run.run()
        assert sum(len(claims) for claims in run.used) * STEPS >= 40 * STEPS
        assert set(run.unused().values()) == {0}


# -- by policy and by hand ---------------------------------------------------------------------


def test_no_update_waits_for_an_actor_that_is_still_starting(tmp_path: Path) -> None:
    """By a policy or by hand it is as soon as possible: with those who are ready."""
    with troupe(Manual(2, 4), full_batch(), 60, tmp_path) as run:
        run.begin()
        run.run(updates=1)
        run.sleepers |= {*acting(2, 3)}
        run.coordinator.concern(Scaling).scale(4)
        assert run.said == [("prepare", 2), ("prepare", 3)]
        run.run(updates=4)
        assert run.learned_from[1:] == [[0, 1]] * 3
        run.wake(2)
        run.run(updates=6)
        assert run.learned_from[-1] == [0, 1, 2]
        run.wake(3)
        run.run()
        assert run.learned_from[-1] == [0, 1, 2, 3]
        assert set(run.unused().values()) == {0}


def test_by_hand_takes_effect_with_the_next_version(tmp_path: Path) -> None:
    with troupe(Manual(3, 3), full_batch(), 30, tmp_path) as run:
        run.begin()
        run.coordinator.concern(Scaling).scale(1)
        run.run()
        assert run.learned_from[0] == [0, 1, 2]
        assert run.learned_from[1:] == [[0]] * 27
        assert run.said == [("retire", 1), ("retire", 2)]


def test_by_hand_overrules_the_plan(tmp_path: Path) -> None:
    with troupe(Schedule({0: 1, 2: 4}), full_batch(), 12, tmp_path) as run:
        run.begin()
        run.coordinator.concern(Scaling).scale(2)
        run.run()
        assert {len(active_actors) for active_actors in run.learned_from} == {1, 2}


def test_more_than_registered_and_fewer_than_triggers_wait_for_are_refused(tmp_path: Path) -> None:
    table = full_batch() | {"learner.update": DataKeyTrigger(("rewards",), n=2, size=STEPS)}
    with troupe(Manual(2, 4), table, 30, tmp_path) as run:
        run.begin()
        for actors, words in (
            (5, "4 are registered"),
            (1, "its triggers wait for 2"),
            (0, "2 to 4"),
        ):
            with pytest.raises(CannotScale, match=words):
                run.coordinator.concern(Scaling).scale(actors)
        run.run()
        assert run.said == []


def test_the_noise_scale_of_the_learner_sets_the_number(tmp_path: Path) -> None:
    policy = NoiseScale(1, 4, every=3)
    with troupe(policy, full_batch(), 60, tmp_path) as run:
        # Three times the rows of an actor's round, later more than all actors could sample.
        run.objects = lambda update: {"noise_scale": (3.0 if update < 9 else 90.0) * STEPS}  # type: ignore[method-assign]
        run.begin()
        run.run()
        counts = unrolled(run.coordinator.monitor.actors_by_update)
        assert counts == sorted(counts)
        assert (counts[:3], counts[9], counts[-1]) == ([1, 1, 1], 3, 4)
        assert set(run.unused().values()) == {0}


def test_a_plateau_of_the_return_adds_actors_up_to_the_most(tmp_path: Path) -> None:
    policy = ReturnPlateau(1, 4, step=2, window=3)
    with troupe(policy, full_batch(), 60, tmp_path) as run:
        run.begin()
        run.coordinator.monitor.returns.append(10.0)  # and never any better
        run.run()
        counts = unrolled(run.coordinator.monitor.actors_by_update)
        assert counts == sorted(counts)
        assert (counts[:3], counts[-1]) == ([1, 1, 1], 4)


# -- who comes, goes and dies ------------------------------------------------------------------


def test_who_comes_back_pulls_the_newest_weights_first(tmp_path: Path) -> None:
    table: Table = {
        "learner.update": DataKeyTrigger(("rewards",), size=STEPS),
        "actors.sample": ObjectKeyTrigger("model_param"),
        "actors.sync": ObjectKeyTrigger("model_param", every=50),
    }
    with troupe(Schedule({0: 2, 2: 1, 6: 2}), table, 20, tmp_path) as run:
        run.begin()
        run.run(updates=7)
        block = run.coordinator.ports.blocks[1]
        newest = block.arrays["policy_version"][block.index(block.written - 1)]
        assert int(newest.ravel()[0]) == 6


def leaver(tmp_path: Path):  # type: ignore[no-untyped-def]
    return troupe(Schedule({0: 2, 2: 1, 6: 2}), full_batch(), 30, tmp_path)


def test_an_actor_that_dies_while_it_is_put_away_is_left_alone_until_it_is_wanted(
    tmp_path: Path,
) -> None:
    with leaver(tmp_path) as run:
        run.begin()
        run.run(updates=3)
        for _ in range(40):
            run.kill(1)
        assert set(run.said[1:]) == {("end", 1)}, "nor is it given up on"
        assert run.coordinator.monitor.restarts == 0
        run.run()
        assert run.learned_from[-1] == [0, 1]
        assert set(run.unused().values()) == {0}


def test_an_actor_that_dies_while_it_is_prepared_is_started_again(tmp_path: Path) -> None:
    with leaver(tmp_path) as run:
        run.begin()
        run.run(updates=5)
        assert run.said[-1] == ("prepare", 1)
        run.kill(1)
        assert run.said[-2:] == [("end", 1), ("start", 1)]
        run.run()
        assert run.learned_from[6] == [0, 1]


def test_an_actor_that_leaves_and_dies_finishes_its_round(tmp_path: Path) -> None:
    """It was told to leave while it still had a round to sample."""
    schedule = Schedule({0: 2, 1: 1})
    with troupe(schedule, full_batch(1), 20, tmp_path) as run:
        run.begin()
        while ("retire", 1) not in run.said:
            run.step()
        before = run.coordinator.ports.blocks[1].written
        run.kill(1)
        if before < 2 * STEPS:
            assert run.said[-1] == ("start", 1)
        run.run()
        assert [len(active_actors) for active_actors in run.learned_from[:3]] == [2, 2, 1]
        assert set(run.unused().values()) == {0}


def test_only_those_who_take_part_are_waited_for(tmp_path: Path) -> None:
    with troupe(Manual(2, 4), full_batch(), 20, tmp_path) as run:
        assert not run.coordinator.roster.all_ready(run.coordinator.actors)
        run.begin()
        assert run.coordinator.roster.all_ready(run.coordinator.actors)
        assert list(run.coordinator.waits()) == ["learner", "actor 0", "actor 1"]
        assert run.coordinator.actors == range(2)


def test_who_is_held_back_is_not_taken_for_hung(tmp_path: Path) -> None:
    with troupe(Manual(2, 2), full_batch(), 20, tmp_path) as run:
        run.begin()
        clock = run.coordinator.ports.clock
        assert isinstance(clock, ManualClock)
        run.without_slot = {*acting(1)}
        clock.advance(run.coordinator.plan.deadline + 1)
        run.coordinator.tick()
        assert run.said == [("end", 0), ("start", 0)], "the other one hangs"


def test_the_troupe_finds_work_for_the_unprepared(tmp_path: Path) -> None:
    """The guard of these tests works."""
    call = Invoke(1, "actors.sample", "sample", stop=STEPS)
    with troupe(Manual(1, 2), full_batch(), 4, tmp_path) as run, pytest.raises(AssertionError):
        run.passers[acting(1)[0]].pass_message(call)
