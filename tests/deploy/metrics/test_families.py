"""What is told of a cluster as metrics: names, kinds, labels and classes."""

from __future__ import annotations

import re
from math import inf
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from artos.protocol.views import ClusterView, NodeView, QuotaView, RunFacts, RunView
from deploy.metrics.exposition import exposition
from deploy.metrics.families import LAGS, Family, Histogram, families, families_of
from head.run.times import WAITED

FACTS = RunFacts(
    algorithm="ppo", env="CartPole-v1", seconds=2.5, steps=1000, total_steps=5000, updates=3,
    version=3, mean_return_100=21.5, episodes=12, lag_mean=1.5, lag_max=9, restarts=2,
    fill={"rewards": 0.25}, metrics={"loss": 0.5, "gone": None},
    times={"learn": 1.0, "actors.wait": 0.75},
    lags={"0": 4, "2-3": 3, "8-15": 1}, waited={"actors.wait/0.001": 5, "actors.wait/inf": 2},
    usage={"cpu_seconds_held": 7.0, "parked_mb_seconds": 2.0, "waits/slot": 0.5},
    learners={"model.version": 4, "model.updates": 8, "model.lag_mean": None},
    skipped={"learner.update": 6}, returns={"player_0": -1.0}, settings={"learner.lr": 1e-3},
)  # fmt: skip


def of(*runs: RunView, **more: Any) -> dict[str, dict[Any, Any]]:
    """Samples of a cluster by name and labels."""
    return read(families(ClusterView(runs=runs, version="1", **more)))


def read(told: list[Family]) -> dict[str, dict[Any, Any]]:
    """Samples by name and labels, as the library reads what the library has written."""
    found: dict[str, dict[Any, Any]] = {}
    for family in text_string_to_metric_families(exposition(told)[0].decode()):
        for sample in family.samples:
            found.setdefault(sample.name, {})[frozenset(sample.labels.items())] = sample.value
    return found


def run(name: str = "first", **more: Any) -> RunView:
    return RunView(**{"name": name, "state": "running", "facts": FACTS, "actors": 4, **more})


def value(found: dict[str, dict[Any, Any]], name: str, **labels: str) -> float:
    return float(found[f"artos_{name}"][frozenset(labels.items())])


def test_a_live_run_tells_all_it_knows() -> None:
    found = of(run())
    assert value(found, "run_steps_total", run="first") == 1000
    assert value(found, "run_actors", run="first") == 4
    assert value(found, "run_mean_return", run="first") == 21.5
    assert value(found, "run_learner_metric", run="first", metric="loss") == 0.5
    assert value(found, "run_cpu_held_seconds_total", run="first") == 7.0
    assert value(found, "run_parked_byte_seconds_total", run="first") == 2e6
    assert value(found, "run_billed_wait_seconds_total", run="first", cause="slot") == 0.5
    assert value(found, "run_policy_version", run="first", learner="model") == 4
    assert value(found, "run_learner_updates_total", run="first", learner="model") == 8
    assert value(found, "run_firings_skipped_total", run="first", target="learner.update") == 6
    assert value(found, "run_state", run="first", state="running") == 1
    assert value(found, "run_state", run="first", state="failed") == 0
    assert value(
        found, "run_info", run="first", user="", algorithm="ppo", env="CartPole-v1"
    ) == 1  # fmt: skip


def test_what_is_not_known_is_left_out() -> None:
    found = of(run())
    assert (
        frozenset({("run", "first"), ("metric", "gone")}) not in found["artos_run_learner_metric"]
    )
    assert "artos_run_updates_limit" not in found
    waiting = of(run(facts=None))
    assert value(waiting, "run_actors", run="first") == 4
    assert "artos_run_steps_total" not in waiting


def test_lags_are_counted_up_to_each_bound_in_the_same_classes_always() -> None:
    (lags,) = [f for f in families(ClusterView(runs=(run(),))) if f.name.endswith("lag_versions")]
    (told,) = lags.samples.values()
    assert isinstance(told, Histogram)
    assert tuple(told.counts) == LAGS
    assert [told.counts[bound] for bound in (0, 1, 3, 7, 15, inf)] == [4, 4, 7, 7, 8, 8]
    assert told.sum == 12.0


def test_a_lag_beyond_all_classes_counts_in_the_last_one() -> None:
    facts = RunFacts(lags={"0": 1, "8192-16383": 2}, lag_mean=6000.0)
    found = of(run(facts=facts))
    assert value(found, "run_lag_versions_bucket", run="first", le="4095.0") == 1
    assert value(found, "run_lag_versions_bucket", run="first", le="+Inf") == 3
    assert value(found, "run_lag_versions_count", run="first") == 3


def test_waits_are_counted_by_what_was_waited_for() -> None:
    found = of(run())
    kind = {"run": "first", "kind": "actors.wait"}
    assert value(found, "run_wait_seconds_bucket", **kind, le="0.001") == 5
    assert value(found, "run_wait_seconds_bucket", **kind, le="+Inf") == 7
    assert value(found, "run_wait_seconds_sum", **kind) == 0.75


def test_bounds_of_waits_are_read_as_they_are_written() -> None:
    assert [float(f"{bound:g}") for bound in WAITED] == [*WAITED]


def test_of_a_run_that_is_over_there_is_the_state_alone_unless_it_is_named() -> None:
    over = run(state="done", outcome="done")
    found = of(over)
    assert {name for name in found if "run" in name} == {"artos_run_state"}
    assert value(read(families_of(over)), "run_steps_total", run="first") == 1000


def test_of_a_run_that_is_named_nothing_is_told_of_its_cluster() -> None:
    """A scraper would take one run's wishes for those of all."""
    assert {name for name in read(families_of(run())) if not name.startswith("artos_run_")} == set()


def test_nodes_and_quotas() -> None:
    node = NodeView(name="n", alive=False, slots=4, memory_mb=2, silent_seconds=7.5)
    found = of(nodes=(node,), quotas={"ann": {"slots": QuotaView(3.0, 8.0)}})
    assert value(found, "node_up", node="n") == 0
    assert value(found, "node_memory_bytes", node="n") == 2 * 2**20
    assert value(found, "node_silent_seconds", node="n") == 7.5
    assert value(found, "quota_held", owner="ann", of="slots") == 3.0


HOSTILE = ['a"} 1\nartos_evil 1', "\\", "\x1b[31m", "\udcff", "a\tb", "名"]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_stays_a_label(name: str) -> None:
    facts = RunFacts(metrics={name: 1.0}, env=name, algorithm=name)
    found = of(run(name, facts=facts), run("other"))
    assert "artos_evil" not in found
    assert len(found["artos_run_actors"]) == 2
    for labels in found["artos_run_learner_metric"]:
        assert all(text.isprintable() for _, text in labels)


def test_two_runs_of_one_name_are_told_once() -> None:
    found = of(run(), run(actors=9))
    assert value(found, "run_actors", run="first") == 4


def test_names_are_those_that_prometheus_asks_for() -> None:
    node = NodeView(name="n", alive=True, slots=4)
    for family in families(ClusterView(runs=(run(),), nodes=(node,))):
        assert re.fullmatch(r"artos_[a-z_]+", family.name)
        assert not family.name.endswith(("_total", "_count", "_sum", "_bucket"))
        assert family.help.endswith(".")
        assert family.samples


def test_an_autoscaler_is_told_which_slots_are_wanted_by_their_labels() -> None:
    """Also those of which there is no worker yet, so that one may bring the first."""
    found = of(
        run(wants=2), run("b", wants=1),
        run("c", wants=3, where=("gpu", "room=b")), run("d", wants=4, where=("room=b", "gpu")),
    )  # fmt: skip
    assert value(found, "slots_wanted", where="") == 3
    assert value(found, "slots_wanted", where="gpu,room=b") == 7
    assert value(of(), "slots_wanted", where="") == 0, "so that the last worker may go"


def test_an_autoscaler_is_told_how_many_workers_runs_have_a_use_for() -> None:
    """Half as many as slots are wanted, with two slots each; more if these lack memory."""
    nodes = tuple(NodeView(name=f"w{n}", alive=True, slots=2, shm_bytes=100) for n in range(2))

    def wanted(*runs: RunView) -> float:
        return value(of(*runs, nodes=nodes), "nodes_wanted")

    assert wanted() == 0
    assert wanted(run(wants=4), run("second", wants=3)) == 4
    assert wanted(run(wants=3, where=("gpu",))) == 0, "no worker like these is of use to it"
    assert wanted(run(wants=2, lacks_memory=1, actor_bytes=100)) == 3
    assert value(of(run(wants=3)), "nodes_wanted") == 3, "as if they had one slot"
