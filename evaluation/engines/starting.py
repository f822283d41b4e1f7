"""How soon a cluster works, and how fast: from the command that starts it, on each way."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from msgspec import UNSET

from artos.errors import DeadlineExceeded
from artos.protocol.views import RunFacts
from deploy.client.head_client import HeadClient
from deploy.client.submit import Wanted, submit
from evaluation.core.runner import Answer
from evaluation.engines.ways import SLOTS, WORKERS, Way
from evaluation.lab.layer import PATIENCE

ACTORS = WORKERS * SLOTS
_SETTINGS = {"env": "CartPole-v1", "actors": ACTORS, "total_steps": 10**9}
_LOOK = 0.02
T = TypeVar("T")


def measure(way: Way, seconds: float) -> Answer:
    """Start a cluster and a run of PPO on it, and follow it for so many seconds.

    Raises:
        DeadlineExceeded: something did not happen.
        LayerFailed: a command failed.
    """
    began = time.monotonic()
    rates: dict[str, float] = {}

    def done(measure: str) -> None:
        rates[measure] = time.monotonic() - began

    try:
        towards = way.up()
        done("up_s")
        with towards.client() as client:
            run = submit(client, Wanted("ppo", dict(_SETTINGS)))["run"]
            facts = wait("the first update", lambda: _facts(client, run, 1))
            done("update_s")
            wait("all actors", lambda: _has_all(_facts(client, run, 1)))
            done("actors_s")
            first = wait("a report", lambda: _facts(client, run, facts.updates + 5))
            time.sleep(seconds)
            last = wait("a later report", lambda: _facts(client, run, first.updates + 1))
            rates["steps_per_s"] = (last.steps - first.steps) / (last.seconds - first.seconds)
            client.stop(run)
            wait("the run's end", lambda: client.status(run).outcome)
    finally:
        began = time.monotonic()
        way.down()
    done("down_s")
    return Answer(rates, {})


def wait(what: str, found: Callable[[], T | None], seconds: float = PATIENCE) -> T:
    """Look until something is found.

    Raises:
        DeadlineExceeded: it was not; names ``what``.
    """
    end = time.monotonic() + seconds
    while not (answer := found()):
        if time.monotonic() > end:
            raise DeadlineExceeded(what, seconds)
        time.sleep(_LOOK)
    return answer


def _facts(client: HeadClient, run: str, updates: int) -> RunFacts | None:
    """What is known of the run once it has made so many updates."""
    facts = client.status(run).progress
    return facts if facts is not None and facts.updates >= updates else None


def _has_all(facts: RunFacts | None) -> bool:
    lags = facts.lag_by_actor if facts is not None else UNSET
    if lags is UNSET:
        return False
    return sum(lag.mean is not None for lag in lags.values()) == ACTORS
