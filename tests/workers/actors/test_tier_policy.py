"""Where an actor waits: decided from numbers alone, and never much slower than the best choice."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worker_hosts import V1, V2, make_host

from workers.actors.tier_policy import (
    WORTH,
    Costs,
    IdleForecast,
    Park,
    Situation,
    Tier,
    choose,
    memory_in_use,
    under_pressure,
)

ALL: frozenset[Tier] = frozenset({"memory", "freeze", "checkpoint"})
NO_CRIU: frozenset[Tier] = frozenset({"memory", "freeze"})
NOTHING: frozenset[Tier] = frozenset({"memory"})


@pytest.fixture
def costs() -> Costs:
    return costs_of(checkpoint=0.2, freeze=0.001)


def costs_of(checkpoint: float, freeze: float) -> Costs:
    costs = Costs()
    costs.into("checkpoint", checkpoint / 2)
    costs.out_of("checkpoint", checkpoint / 2)
    costs.into("freeze", freeze / 2)
    costs.out_of("freeze", freeze / 2)
    return costs


# -- fixed choices -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("park", "available", "tier"),
    [
        ("memory", ALL, "memory"),
        ("freeze", ALL, "freeze"),
        ("checkpoint", ALL, "checkpoint"),
        ("checkpoint", NO_CRIU, "freeze"),
        ("checkpoint", NOTHING, "memory"),
        ("freeze", NOTHING, "memory"),
        ("never", ALL, "never"),
    ],
)
@pytest.mark.parametrize("pressure", [False, True])
@pytest.mark.parametrize("idle", [None, 0.0, 1e6])
def test_a_fixed_choice_is_obeyed_as_far_as_the_host_goes(
    costs: Costs,
    park: Park,
    available: frozenset[Tier],
    tier: Tier,
    pressure: bool,
    idle: float | None,
) -> None:
    assert choose(park, Situation(available, idle, pressure=pressure), costs) == tier


def test_never_is_between_rounds_only(costs: Costs) -> None:
    assert choose("never", Situation(for_good=True), costs) == "memory"


# -- auto --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seen", "tier"),
    [
        (Situation(), "memory"),
        (Situation(idle=1e6), "memory"),
        (Situation(idle=1e6, pressure=True), "checkpoint"),
        (Situation(idle=4.0, pressure=True), "checkpoint"),
        (Situation(idle=3.9, pressure=True), "memory"),
        (Situation(idle=None, pressure=True), "memory"),
        (Situation(idle=1e6, pressure=True, gives_back=False), "memory"),
        (Situation(NO_CRIU, idle=1e6, pressure=True), "memory"),
        (Situation(idle=1.0, burns_cpu=True), "freeze"),
        (Situation(idle=0.01, burns_cpu=True), "memory"),
        (Situation(idle=1e6, burns_cpu=True), "freeze"),
        (Situation(idle=1e6, burns_cpu=True, pressure=True), "checkpoint"),
        (Situation(idle=1.0, burns_cpu=True, pressure=True), "freeze"),
        (Situation(NOTHING, idle=1.0, burns_cpu=True), "memory"),
        (Situation(for_good=True), "checkpoint"),
        (Situation(for_good=True, gives_back=False), "checkpoint"),
        (Situation(NO_CRIU, for_good=True), "freeze"),
        (Situation(NOTHING, for_good=True), "memory"),
    ],
)
def test_auto_stays_in_memory_but_for_a_reason(costs: Costs, seen: Situation, tier: Tier) -> None:
    assert choose("auto", seen, costs) == tier


@given(
    pauses=st.lists(st.floats(0.0, 100.0), min_size=1, max_size=60),
    pressure=st.booleans(),
    burns=st.booleans(),
    checkpoint=st.floats(0.001, 2.0),
    freeze=st.floats(0.00001, 0.1),
    expected=st.floats(0.0, 100.0),
)
def test_auto_costs_at_most_a_twentieth_of_the_pauses(
    pauses: list[float], pressure: bool, burns: bool, checkpoint: float, freeze: float,
    expected: float,
) -> None:  # fmt: skip
    """The promise of ``choose``, for any sequence of pauses, also one made to fool it.

    And whatever the run expects.
    """
    costs = costs_of(checkpoint, freeze)
    forecast = IdleForecast()
    forecast.expect(expected)
    spent = 0.0
    for pause in pauses:
        seen = Situation(idle=forecast.seconds, pressure=pressure, burns_cpu=burns)
        spent += costs.of(choose("auto", seen, costs))
        forecast.noted(pause)
    assert spent <= sum(pauses) / WORTH + 1e-9


@given(idle=st.floats(0.0, 1e6), checkpoint=st.floats(0.001, 2.0))
def test_auto_is_free_while_memory_lasts(idle: float, checkpoint: float) -> None:
    costs = costs_of(checkpoint, 0.001)
    assert costs.of(choose("auto", Situation(idle=idle), costs)) == 0.0


# -- costs and forecasts -----------------------------------------------------------------------


def test_costs_are_guessed_until_they_are_measured() -> None:
    costs = Costs()
    assert 0.0 == costs.of("memory") == costs.of("never") < costs.of("freeze")
    assert costs.of("freeze") < costs.of("checkpoint")
    guess = costs.of("checkpoint")
    costs.into("checkpoint", 10.0)
    assert 10.0 < costs.of("checkpoint") < 10.0 + guess, "the way out is still a guess"
    costs.out_of("checkpoint", 5.0)
    assert costs.of("checkpoint") == 15.0


def test_one_slow_round_trip_changes_no_median() -> None:
    costs = Costs()
    for seconds in (0.1, 0.1, 30.0):
        costs.into("checkpoint", seconds)
        costs.out_of("checkpoint", seconds)
    assert costs.of("checkpoint") == pytest.approx(0.2)


def test_what_was_measured_long_ago_is_forgotten() -> None:
    costs = Costs(window=3)
    for seconds in (9.0, 9.0, 9.0, 9.0, 1.0, 1.0, 1.0):
        costs.into("freeze", seconds)
        costs.out_of("freeze", seconds)
    assert costs.of("freeze") == 2.0


def test_the_last_fifteen_times_count() -> None:
    costs = Costs()
    for seconds in [9.0] * 8 + [1.0] * 8:
        costs.into("freeze", seconds)
        costs.out_of("freeze", seconds)
    assert costs.of("freeze") == 2.0


def test_the_forecast_is_the_shortest_of_the_last_five_pauses() -> None:
    forecast = IdleForecast()
    assert forecast.seconds is None
    told = []
    for pause in (9.0, 3.0, 7.0, 8.0, 6.0, 5.0, 9.0):
        forecast.noted(pause)
        told.append(forecast.seconds)
    assert told == [9.0, 3.0, 3.0, 3.0, 3.0, 3.0, 5.0]


def test_what_the_run_expects_counts_but_never_beyond_the_last_pause() -> None:
    """After a short pause it is believed again at once, not only after five."""
    forecast = IdleForecast()
    forecast.expect(8.0)
    assert forecast.seconds is None, "the actor was never idle"
    told = []
    for pause in (9.0, 3.0, 9.0):
        forecast.noted(pause)
        told.append(forecast.seconds)
    assert told == [8.0, 3.0, 8.0]
    forecast.expect(0.0)
    assert forecast.seconds == 3.0


# -- memory pressure ---------------------------------------------------------------------------


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A machine with a quarter of its memory in use; change ``available`` to change that."""
    memory = SimpleNamespace(total=1000, available=750)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)
    return memory


def test_the_machine_counts_where_no_group_has_a_limit(
    tmp_path: Path, machine: SimpleNamespace
) -> None:
    unlimited = {
        "sys/fs/cgroup/apps/job/memory.max": "max",
        "sys/fs/cgroup/apps/job/memory.current": "999",
    }
    for host in (tmp_path, make_host(tmp_path, V2 | unlimited)):
        assert memory_in_use(host) == 0.25
        assert not under_pressure(host)
    machine.available = 150
    assert under_pressure(tmp_path), "from this share on"
    machine.available = 151
    assert not under_pressure(tmp_path)


def test_the_tightest_group_counts(tmp_path: Path, machine: SimpleNamespace) -> None:
    tree = "sys/fs/cgroup/apps"
    files = {
        f"{tree}/memory.max": "1000",
        f"{tree}/memory.current": "900",
        f"{tree}/job/memory.max": "10000",
        f"{tree}/job/memory.current": "800",
    }
    host = make_host(tmp_path, V2 | files)
    assert memory_in_use(host) == 0.9
    assert under_pressure(host)


def test_pages_of_files_that_can_be_dropped_do_not_press(
    tmp_path: Path, machine: SimpleNamespace
) -> None:
    tree = "sys/fs/cgroup/apps/job"
    files = {
        f"{tree}/memory.max": "1000",
        f"{tree}/memory.current": "900",
        f"{tree}/memory.stat": "anon 300\ninactive_file 500\nactive_file 100",
    }
    assert memory_in_use(make_host(tmp_path, V2 | files)) == 0.4


def test_a_limit_of_version_1(tmp_path: Path, machine: SimpleNamespace) -> None:
    tree = "sys/fs/cgroup/memory/job"
    files = {
        f"{tree}/memory.limit_in_bytes": "1000",
        f"{tree}/memory.usage_in_bytes": "900",
        f"{tree}/memory.stat": "inactive_file 1\ntotal_inactive_file 200",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
        "sys/fs/cgroup/memory/memory.usage_in_bytes": "100000",
    }
    assert memory_in_use(make_host(tmp_path, V1 | files)) == 0.7


@pytest.mark.parametrize("limit", ["0", "max", "-1", ""])
def test_what_is_no_limit_is_none(tmp_path: Path, machine: SimpleNamespace, limit: str) -> None:
    tree = "sys/fs/cgroup/apps/job"
    files = {f"{tree}/memory.max": limit, f"{tree}/memory.current": "900"}
    assert memory_in_use(make_host(tmp_path, V2 | files)) == 0.25


def test_a_limit_of_one_byte_is_one(tmp_path: Path, machine: SimpleNamespace) -> None:
    tree = "sys/fs/cgroup/apps/job"
    files = {f"{tree}/memory.max": "1", f"{tree}/memory.current": "1"}
    assert memory_in_use(make_host(tmp_path, V2 | files)) == 1.0


def test_this_host_has_some_memory_in_use() -> None:
    assert 0.0 < memory_in_use() <= 1.0
