"""Evolution strategies as runs: actor and learner draw the same noise, so that they learn."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from inline_runs import finished, registered

from artos.errors import Refused
from deploy.local.run import run
from head.records.status import Summary
from head.run.request import Request, reference_of
from triggers.registration import prepare


def trained(folder: Path, env: str, seed: int, **settings: Any) -> Summary:
    shutil.copy(Path(__file__).with_name("aiming.py"), folder)
    wanted = {"env": env, "total_steps": 0, "evaluation_episodes": 5} | settings
    where: dict[str, Any] = {"folder": folder, "run_dir": folder / "run"}
    return run(Request("es", wanted, seed=seed, inline=True, quiet=True, **where))


@pytest.mark.parametrize(
    ("env", "untrained", "bar"),
    [("aiming:aim", -1.5, -0.2), ("aiming:name", 3.0, 4.0)],
    ids=["continuous", "discrete"],
)
@pytest.mark.parametrize("seed", [1, 2])
def test_it_learns(env: str, untrained: float, bar: float, seed: int, home: Path) -> None:
    """At best it is 0 and 4: a wrong sign leads away, noise of other rounds does not lead to 0."""
    few: dict[str, Any] = {"steps": 8, "envs": 16, "hidden": (16,)}
    found = trained(home, env, seed, total_updates=40, evaluate_every=40, **few).evaluation
    assert [each.version for each in found] == [0, 40]
    assert found[0].mean_return < untrained
    assert found[-1].mean_return >= bar


def test_only_results_travel_unless_observations_are_scaled(home: Path) -> None:
    def keys(**settings: Any) -> list[str]:
        plan = prepare(reference_of("es", settings, home), seed=1, apart=False).plan
        return [key.name for key in plan.data_keys]

    assert keys() == ["rewards", "terminations", "truncations"]
    assert "observations" in keys(normalize=True)


def test_observations_are_scaled_by_transitions_alone(home: Path) -> None:
    """Rows in which an environment only begins anew are none."""
    few: dict[str, Any] = {"actors": 1, "envs": 4, "steps": 64, "total_steps": 512, "hidden": [4]}
    found = finished(registered("es", home, env="vector:CartPole-v1", normalize=True, **few), home)
    assert found.coordinator.plan.layout[-1] == ("normalizer.count", (1,))
    counted, episodes = found.arrays["params"][-1], found.coordinator.monitor.episodes
    assert episodes > 8
    # One that ends with its round, of eight at most, needs no such row: rounds begin anew.
    assert 512 - episodes <= counted <= 512 - episodes + 8


def test_an_environment_without_its_pair_is_refused(home: Path) -> None:
    with pytest.raises(Refused, match="set envs to an even number, not 3"):
        prepare(reference_of("es", {"envs": 3}, home), seed=1, apart=False)
