"""The workload monitor: lags at both measuring points, episodes, and where the time went."""

from __future__ import annotations

import numpy as np
import pytest
from named import LEARNER, acting

from artos.protocol.lag import measure
from head.records.episodes import Ended
from head.run.monitor import LagMeter, Monitor
from head.run.times import WAITED

FIRST, SECOND = acting(0, 1)


def test_the_lag_meter_keeps_mean_and_maximum_over_all_rows() -> None:
    meter = LagMeter()
    meter.add(measure(0, np.array([0, 2, 1])))
    assert (meter.mean, meter.largest) == (1.0, 2)
    meter.add(measure(1, np.array([5])))
    assert (meter.rows, meter.mean, meter.largest) == (4, 2.0, 5)
    assert meter.histogram == {"0": 1, "1": 1, "2-3": 1, "4-7": 1}


def test_what_was_not_measured_is_not_zero() -> None:
    monitor = Monitor()
    assert monitor.learned_from([]) == {}
    assert (monitor.lag.mean, monitor.lag.largest, monitor.lag.histogram) == (None, None, {})
    assert monitor.lag_by_actor() == {}


def test_the_lags_of_an_update_are_told_and_added_up_by_actor() -> None:
    monitor = Monitor()
    told = monitor.learned_from([measure(1, np.array([0, 4])), measure(0, np.array([1]))])
    assert told == {"lag_mean": 1.6667, "lag_max": 4, "lags": [(1, 2.0, 4), (0, 1.0, 1)]}
    monitor.learned_from([measure(1, np.array([1]))])
    assert monitor.lag_by_actor() == {0: {"mean": 1.0, "max": 1}, 1: {"mean": 1.6667, "max": 4}}
    assert monitor.lag_by_actor(spread=True)[1] == {
        "mean": 1.6667, "max": 4, "rows": 3, "histogram": {"0": 1, "1": 1, "4-7": 1}
    }  # fmt: skip


def test_the_end_of_a_round_is_measured_on_what_actors_hold() -> None:
    monitor = Monitor()
    monitor.round_ended(2, [0, 1, 2])
    assert (monitor.round_lag.mean, monitor.round_lag.largest) == (1.0, 2)
    monitor.round_ended(3, {0: 3, 1: 3, 2: 4}.values())
    assert (monitor.round_lag.mean, monitor.round_lag.largest, monitor.round_lag.rows) == (
        0.5,
        2,
        6,
    )
    assert monitor.lag.rows == 0, "consumption is measured apart"


def test_agents_of_a_game_have_mean_returns_of_their_own() -> None:
    monitor = Monitor(window=2)
    monitor.sampled(FIRST, [1.0, 5.0, 3.0], [10, 20, 30], {}, 100, ["b", "a", "b"])
    monitor.sampled(SECOND, [7.0, 9.0], [30, 40], {}, 200, ["b", "a"])
    assert monitor.mean_returns == {"a": 7.0, "b": 5.0}
    assert monitor.finished[-1] == Ended(200, 9.0, 40, "a")


def test_the_mean_return_is_over_the_last_episodes() -> None:
    monitor = Monitor(window=2)
    assert str(monitor.mean_return) == "None"
    monitor.sampled(FIRST, [1.0, 5.0], [10, 20], {}, 100)
    monitor.sampled(SECOND, [7.0], [30], {}, 200)
    assert (monitor.mean_return, monitor.episodes) == (6.0, 3)
    ended = [Ended(100, 1.0, 10), Ended(100, 5.0, 20), Ended(200, 7.0, 30)]
    assert monitor.finished == ended


def test_returns_and_lengths_must_belong_together() -> None:
    with pytest.raises(ValueError, match="zip"):
        Monitor().sampled(FIRST, [1.0], [], {}, 1)


def test_times_add_up_and_waiting_is_told_apart() -> None:
    monitor = Monitor()
    monitor.sampled(FIRST, [], [], {"environment": 1.0, "wait": 0.5}, 1)
    monitor.sampled(SECOND, [], [], {"environment": 0.5, "wait_for_room": 2.0}, 1)
    monitor.learned(LEARNER, {"loss": 3.0}, {"learn": 2.0, "wait": 0.25})
    monitor.learned(LEARNER, {"loss": 2.0}, {"learn": 2.0})
    monitor.helped(LEARNER, {"preprocess": 0.75})
    assert monitor.metrics == {"loss": 2.0}
    assert monitor.times.seconds() == {
        "environment": 1.5, "actors.wait": 0.5, "actors.wait_for_room": 2.0,
        "learn": 4.0, "learner.wait": 0.25, "preprocess": 0.75,
    }  # fmt: skip


def test_waits_are_counted_in_classes_by_role_and_kind() -> None:
    monitor = Monitor()
    for seconds in (0.0, 0.001, 0.0011, 0.3):
        monitor.sampled(FIRST, [], [], {"environment": 9.0, "wait": seconds}, 1)
    monitor.learned(LEARNER, {}, {"learn": 9.0, "wait_for_device": 1e6})
    waited = monitor.times.waited()
    assert {name: count for name, count in waited.items() if count} == {
        "actors.wait/0.001": 2, "actors.wait/0.004": 1, "actors.wait/1": 1,
        "learner.wait_for_device/inf": 1,
    }  # fmt: skip
    assert len(waited) == 2 * len(WAITED)  # so that no column of the records comes later


def test_shares_are_of_the_wall_time_of_the_learner_or_of_the_actors() -> None:
    monitor = Monitor()
    monitor.sampled(FIRST, [], [], {"wait": 3.0, "environment": 1.0}, 1)
    monitor.sampled(SECOND, [], [], {"wait_for_room": 2.0, "environment": 2.0}, 1)
    monitor.learned(LEARNER, {}, {"learn": 1.0, "wait": 9.0})
    assert monitor.times.shares() == {
        "actors.environment": 0.375, "actors.wait": 0.375, "actors.wait_for_room": 0.25,
        "learner.learn": 0.1, "learner.wait": 0.9,
    }  # fmt: skip
    by_member = monitor.times.by_member()
    assert by_member["learner"] == {
        "wall": 10.0, "work": 1.0, "wait": 9.0, "shares": {"learn": 0.1, "wait": 0.9}
    }  # fmt: skip
    assert {name: (m["wall"], m["work"]) for name, m in by_member.items()} == {
        "actor 0": (4.0, 1.0), "actor 1": (4.0, 2.0), "learner": (10.0, 1.0)
    }  # fmt: skip


def test_before_anybody_answered_there_is_nothing_to_share() -> None:
    assert Monitor().times.shares() == {}


def test_the_number_of_actors_is_kept_as_run_lengths() -> None:
    monitor = Monitor()
    for actors in (2, 2, 2, 3, 2):
        monitor.took_part(actors)
    assert monitor.actors_by_update == [(3, 2), (1, 3), (1, 2)]
