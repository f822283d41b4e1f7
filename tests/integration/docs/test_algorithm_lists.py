"""What pages say of groups of algorithms holds for each of them, and for no other."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any

import pytest
from helpers import ROOT

from artos.errors import Refused
from artos.specs.workload import Workload
from triggers import ReplayTrigger
from triggers.algorithms import BUILT_IN

README = (ROOT / "README.md").read_text()
ALGORITHMS = (ROOT / "docs" / "how-to" / "algorithms.md").read_text()
DISCRETE, CONTINUOUS = "CartPole-v1", "Pendulum-v1"
ALL, BOTH = "all", "discrete, or continuous with bounds"
ENVS = {
    ALL: {DISCRETE, CONTINUOUS}, BOTH: {DISCRETE, CONTINUOUS}, "discrete": {DISCRETE},
    "continuous with bounds": {CONTINUOUS}, "tokens": set[str](),
}  # fmt: skip
"""Environments for the actions that an algorithm is said to take."""


def table(page: str, header: str) -> dict[str, str]:
    """The second column of a table, by the name of the algorithm in the first one."""
    rows = page.partition(header)[2].partition("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in row.split("|")] for row in rows]
    return {name.strip("`"): second for _, name, second, *_ in cells}


TOLD = table(README, "| algorithm | actions |")
NAMES = [*TOLD]
ON_POLICY, REPLAY = NAMES[: NAMES.index("dqn")], NAMES[NAMES.index("dqn") : NAMES.index("es")]


def built(name: str, **given: Any) -> Workload:
    build: Callable[..., Workload] = import_module(f"triggers.algorithms.{name}").workload
    if unknown := given.keys() - inspect.signature(build).parameters:
        raise Refused([f"{name} has no setting {each}" for each in unknown])
    return build(**given)


def that_take(**given: Any) -> dict[str, Workload]:
    """The algorithms that take these settings, as workloads."""
    found = {}
    for name, actions in TOLD.items():
        env = min(ENVS[actions], default=DISCRETE)
        with suppress(Refused):
            found[name] = built(name, **{"env": env, **given})
    return found


def test_the_tables_have_all_algorithms() -> None:
    replay = table(ALGORITHMS, "| `artos run` | actions |")
    assert set(TOLD) == set(BUILT_IN)
    assert {name: TOLD[name] for name in REPLAY} == replay
    assert {*table(ALGORITHMS, "| `artos run` | learns |")} == {*ON_POLICY, "es"}


@pytest.mark.parametrize("env", [DISCRETE, CONTINUOUS])
def test_the_actions_that_algorithms_take(env: str) -> None:
    assert [*that_take(env=env)] == [name for name, actions in TOLD.items() if env in ENVS[actions]]


def test_which_draw_from_replay() -> None:
    assert "Those from `dqn` to `crossq` sample and learn at the same time" in README
    updates = {name: each.triggers["learner.update"] for name, each in that_take().items()}
    assert [name for name, each in updates.items() if isinstance(each, ReplayTrigger)] == REPLAY
    assert REPLAY[-1] == "crossq"


def test_which_scale_remember_and_are_answered() -> None:
    said = " ".join(README.split())
    assert "All but `grpo` take `--set normalize=true`; those above `dqn` also" in said
    assert "and all but `es`, `grpo`, `rainbow` and `apex` `--set inference=central`" in said
    assert [*that_take(normalize=True)] == [name for name in NAMES if name != "grpo"]
    assert [*that_take(recurrent=True)] == ON_POLICY
    central = [name for name in NAMES if name not in ("es", "grpo", "rainbow", "apex")]
    assert [*that_take(inference="central")] == central
    assert "those of the first table but `es` also scale rewards" in " ".join(ALGORITHMS.split())
    assert [*that_take(normalize_rewards=True)] == ON_POLICY


def test_which_relabel_goals() -> None:
    said = " ".join(README.split())
    assert "All of these but `r2d2` take `--set her=0.8 --set n_step=1`" in said
    assert "`rainbow` and `apex` only with `--set replay=uniform`" in said
    uniform = [*that_take(her=0.8, n_step=1, replay="uniform")]
    assert uniform == [name for name in REPLAY if name != "r2d2"]
    assert set(uniform) - set(that_take(her=0.8, n_step=1)) == {"rainbow", "apex"}
