"""A real Prometheus scrapes a live run; every query of the Grafana board has an answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus import checked, program, scraping
from real_runs import Artos, Outcome

from deploy.metrics.grafana import PANELS

RUN = (
    "run", "ppo", "--env", "CartPole-v1", "--actors", "2", "--set", "steps=128",
    "--set", "max_lag=1", "--run-dir", "runs/live",
)  # fmt: skip
EVALUATED = ("--set", "evaluate_every=20", "--set", "evaluation_episodes=2")


@pytest.mark.long
@pytest.mark.processes
def test_every_query_of_the_board_is_answered(
    start: Callable[..., Artos], home: Path, tmp_path: Path
) -> None:
    program("prometheus")
    training = start(*RUN, *EVALUATED, "--total-steps", 50_000_000)
    served = tmp_path / "served"
    served.mkdir()
    serving = Artos(
        served, ("metrics", "--runs", home / "runs", "--listen", "127.0.0.1:0", "--json")
    )
    try:
        serving.until(lambda: (served / "stdout.txt").read_text().endswith("\n"))
        address = json.loads((served / "stdout.txt").read_text())["address"]
        target = address.removeprefix("http://").removesuffix("/metrics")
        training.until((home / "runs" / "live" / "progress.csv").exists)
        with scraping(target, tmp_path) as prometheus:
            training.until(lambda: prometheus.query("rate(artos_run_steps_total[10s]) > 0"))
            for panel in PANELS:
                for query in panel.queries.values():
                    prometheus.until(query.replace("$run", ".*").replace("$__rate_interval", "10s"))
            (steps,) = prometheus.until('rate(artos_run_steps_total{run="live"}[10s])')
            assert float(steps["value"][1]) > 0
            lags = prometheus.until("artos_run_lag_versions_bucket")
            assert {each["metric"]["le"] for each in lags} >= {"0.0", "1.0", "3.0", "+Inf"}
            prometheus.until("up == 1")
            training.process.terminate()  # nobody scrapes it: it only reads
            training.wait()
            prometheus.until('artos_run_state{run="live", state="done"} == 1')
    finally:
        serving.end()
    assert not serving.survivors()


@pytest.mark.processes
def test_promtool_finds_nothing_wrong(artos: Callable[..., Outcome]) -> None:
    program("promtool")
    assert artos(*RUN, "--total-steps", 2048, "--inline", "--json").status == 0
    told = artos("metrics", "live")
    assert told.status == 0
    assert 'artos_run_wait_seconds_bucket{kind="learner.wait"' in told.out
    assert checked(told.out) == ""
