"""The driver of SAC with Ray: what it asks actors for, and when; Ray itself is made up."""

from __future__ import annotations

import importlib
import os
import sys
import time
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from evaluation.baselines.split_sac import Round, Settings

SETTINGS = Settings(total_steps=64, steps=8, batch=16, ratio=8.0, after=32, sync=4, hidden=(8,))
USERS = ("baselines.ray_cluster", "baselines.ray_actors", "sharing.ray_sac")


class Sampler:
    """Notes what it is asked for."""

    asked: list[tuple[int, int, bool]]

    def __init__(self, settings: Settings, seed: int) -> None:
        self._seed, self._steps = seed, settings.steps

    def pid(self) -> int:
        return os.getpid()

    def sample(self, weights: Any, version: int, *, random: bool) -> Round:
        self.asked.append((self._seed, version, random))
        return Round(np.ones((self._steps, 9), np.float32), (-100.0,))


@dataclass(eq=False)
class Call:
    """One that has ended."""

    result: Any


class Remote:
    """An object whose methods are called by ``method.remote(...)``, at once."""

    def __init__(self, held: Any) -> None:
        self._held = held

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._held, name)
        return SimpleNamespace(remote=lambda *a, **k: Call(method(*a, **k)))


def made_up_ray() -> ModuleType:
    ray: Any = ModuleType("ray")
    made = lambda kind: SimpleNamespace(remote=lambda *a: Remote(kind(*a)))  # noqa: E731
    ray.remote = lambda num_cpus: made
    ray.put = lambda weights: weights
    ray.get = lambda calls, timeout: [call.result for call in calls]
    ray.wait = lambda calls, num_returns, timeout: (calls[:1], calls[1:])
    ray.exceptions = SimpleNamespace(GetTimeoutError=TimeoutError)
    return ray


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The script, imported with a Ray whose calls have ended as soon as they are made."""
    monkeypatch.setitem(sys.modules, "ray", made_up_ray())
    for name in USERS:
        monkeypatch.delitem(sys.modules, f"evaluation.{name}", raising=False)
    found: Any = importlib.import_module("evaluation.sharing.ray_sac")
    Sampler.asked = []
    monkeypatch.setattr(found, "Sampler", Sampler)
    yield found
    for name in USERS:
        del sys.modules[f"evaluation.{name}"]


def test_all_steps_are_made_and_all_updates_that_are_due(script: Any) -> None:
    found = script.Run(SETTINGS, actors=2, seed=1, deadline=5.0).measure()
    assert found["updates"] == (64 - 32) * 8 / 16
    assert [actor for actor, _, _ in Sampler.asked] == [1, 2] * 4
    assert found["return"] == -100.0
    assert found["run_s"] >= found["updates"] * found["update_s"] >= found["seconds.learn"] > 0
    assert found["held_cpu_s"] >= 1.99 * found["run_s"]  # two clocks are read one after the other


def test_actors_get_their_next_round_before_the_driver_learns_from_the_last(script: Any) -> None:
    """So the first round that could see new weights is the one after the next."""
    script.Run(SETTINGS, actors=1, seed=1, deadline=5.0).measure()
    versions = [version for _, version, _ in Sampler.asked]
    assert versions == [0, 0, 0, 0, 0, 0, 4, 8]


def test_actors_that_are_ordered_act_once_they_are_waited_for(script: Any) -> None:
    actors = script.ActiveActors(Sampler, SETTINGS, 1, 5.0)
    actors.grow(1)
    actors.order(3)
    assert len([*actors]) == 1
    actors.grow(3)
    assert len([*actors]) == 3


def test_no_more_cpus_are_held_than_there_are(script: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    actors = script.ActiveActors(Sampler, SETTINGS, 1, 5.0)
    actors.grow(64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    began = min(actors._since)
    assert actors.held() <= 2 * (time.perf_counter() - began)


def test_actions_are_random_until_there_are_enough_transitions(script: Any) -> None:
    script.Run(SETTINGS, actors=2, seed=1, deadline=5.0).measure()
    assert [random for _, _, random in Sampler.asked] == [True] * 4 + [False] * 4


def test_its_options_are_the_settings(script: Any) -> None:
    line = "--total-steps 3000 --actors 2 --batch 128 --ratio 32 --after 500"
    options = script.options_of(line.split())
    assert script.settings_of(options) == Settings(total_steps=3000, batch=128, ratio=32.0)
    assert options.threads == 1


def test_options_that_make_no_sense_are_refused(script: Any, capsys: Any) -> None:
    with pytest.raises(SystemExit):
        script.options_of(["--total-steps", "0"])
    assert "--total-steps must be at least 1" in capsys.readouterr().err
