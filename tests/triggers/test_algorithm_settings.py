"""A setting of an algorithm is declared once: all that is known of it stands in one field."""

from __future__ import annotations

import importlib
import math
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from inline_runs import registered

import artos
from artos.errors import Refused
from artos.learners.settings import declared, fitted, out_of_range, settings_of_learner
from artos.runs.loader import load_workload
from artos.specs.named import WHO_SEPARATES
from artos.specs.reference import Reference
from artos.specs.settings import settings_of
from triggers.algorithms import BUILT_IN
from triggers.explain import explain

CLASSES = {"ppo": artos.PPO, "a2c": artos.A2C, "impala": artos.IMPALA}
CLASSES |= {"trpo": artos.TRPO, "appo": artos.APPO}
CLASSES |= {"dqn": artos.DQN, "sac": artos.SAC, "td3": artos.TD3}
CLASSES |= {"ddpg": artos.DDPG, "d4pg": artos.D4PG}
CLASSES |= {"crossq": artos.CrossQ, "rnd": artos.RND}
CLASSES |= {"rainbow": artos.Rainbow, "apex": artos.ApeX, "r2d2": artos.R2D2}
CLASSES |= {"es": artos.ES}
CLASSES |= {"grpo": artos.GRPO}


def settings_type(name: str) -> type[msgspec.Struct]:
    return CLASSES[name].Settings


def test_every_algorithm_is_a_public_name() -> None:
    assert set(CLASSES) == set(BUILT_IN)
    assert artos.PipelinedPPO.Settings is artos.PPO.Settings


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_field_has_words_and_a_default(name: str) -> None:
    builder = importlib.import_module(f"triggers.algorithms.{name}").workload
    shown = {each.name: each for each in settings_of(builder)}
    assert [*shown] == [*settings_type(name).__struct_fields__]
    for field, each in declared(settings_type(name)).items():
        assert each.meta.description, f"{name}: {field} has no words"
        assert shown[field].does.startswith(each.meta.description)
        assert shown[field].kind, f"{name}: {field} has no type that users know"
        assert shown[field].default, f"{name}: {field} has no default"


@pytest.mark.parametrize("name", BUILT_IN)
def test_who_cannot_have_a_policy_for_each_agent_is_named(name: str) -> None:
    """As refusals of games whose agents differ name them, too."""
    with pytest.raises(Refused) as refused:
        load_workload(Reference(BUILT_IN[name], {"env": "CartPole-v1", "agents": "separate"}))
    can = "has no agents that several policies could play" in str(refused.value)
    assert can == (name not in {"apex", "es", "grpo"})
    if "unknown setting" in str(refused.value):
        assert f"{WHO_SEPARATES} have the setting, and" in str(refused.value)


def test_explain_lists_every_setting(tmp_path: Path) -> None:
    found = registered("ppo", tmp_path)
    page = explain(found.plan, found.table, found.settings)
    for field in settings_type("ppo").__struct_fields__:
        assert f"\n{field}=" in page


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_range_is_checked(name: str) -> None:
    usual = fitted(settings_type(name)(), None)
    assert [*out_of_range(usual)] == []
    for field, each in declared(settings_type(name)).items():
        ranges = (each.meta.gt, each.meta.ge, each.meta.le)
        if ranges == (None, None, None):
            continue
        for wrong in (-1, math.nan, "much", *([] if each.unbounded else [math.inf])):
            if int in (each.kind, *get_args(each.kind)) and isinstance(wrong, float):
                continue
            (said,) = out_of_range(msgspec.structs.replace(usual, **{field: wrong}))
            assert said.startswith(f"{field} must be "), said


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_learner_made_by_hand_has_what_is_usual(name: str) -> None:
    learner: Any = CLASSES[name](lr=0.5)
    assert learner.settings == fitted(settings_type(name)(lr=0.5), None)
    assert learner.lr == 0.5
    assert [*learner.out_of_range()] == []


def test_a_learner_refuses_what_it_does_not_read() -> None:
    with pytest.raises(TypeError, match="PPO has no setting 'epoch': did you mean epochs"):
        artos.PPO(epoch=3)
    with pytest.raises(TypeError, match="DQN has no setting 'epsilon': the workload's function"):
        artos.DQN(epsilon=0.1)
    assert settings_of_learner(settings_type("sac"), {"hidden": (8,)}).hidden == (8,)


def test_rewards_are_scaled_with_observations_unless_said_otherwise() -> None:
    kind = settings_type("a2c")
    asked = [kind(), kind(normalize=True), kind(normalize=True, normalize_rewards=False)]
    assert [each.scales_rewards for each in asked] == [False, True, False]
    assert artos.A2C(normalize_rewards=True).settings.scales_rewards


@pytest.mark.parametrize(
    ("name", "settings", "told"),
    [
        ("ppo", {"memory": 32}, "memory=32 has no effect: add recurrent=true, or leave it out"),
        ("ppo", {"splits": 2}, "splits=2 has no effect: add inference=central, or leave it out"),
        ("dqn", {"alpha": 0.5}, "alpha=0.5 has no effect: add replay=prioritised, or leave it out"),
        ("r2d2", {"replay": "uniform", "beta": 0.5}, "beta=0.5 has no effect: add replay="),
        ("grpo", {"rank": 4}, "rank=4 has no effect: add model=..., or leave it out"),
        ("grpo", {"loss": "aipo", "mask_low": 0.1}, "mask_low=0.1 has no effect: add loss=dppo"),
        ("grpo", {"served_model": "a"}, "served_model=a has no effect: add weights=http"),
        ("sac", {"target_entropy": 1.0, "temperature_lr": 0}, "target_entropy=1.0 has no effect"),
        ("dqn", {"spread": 7, "actors": 1}, "spread=7 has no effect with one actor"),
        ("apex", {"actors": 1}, "spread=7 has no effect with one actor"),
        ("ppo", {"recurrent": True, "memory": 32}, ""),
        ("ppo", {}, ""),
    ],
)
def test_settings_that_do_nothing_are_told(name: str, settings: dict[str, Any], told: str) -> None:
    build = importlib.import_module(f"triggers.algorithms.{name}").workload
    found = " ".join(build(**settings).doubts)
    assert told in found
    assert bool(told) == bool(found)


def test_what_has_no_effect_is_a_note_before_a_run_begins(tmp_path: Path) -> None:
    found = registered("ppo", tmp_path, memory="32", evaluation_episodes="3")
    page = explain(found.plan, found.table, found.settings)
    assert "note: memory=32 has no effect: add recurrent=true" in page
    assert "note: evaluation_episodes=3 has no effect: add evaluate_every=" in page


@pytest.mark.parametrize("name", BUILT_IN)
def test_what_a_setting_is_of_is_one_of_the_same_algorithm(name: str) -> None:
    there = declared(settings_type(name))
    for each in filter(None, (each.of for each in there.values())):
        assert each.removeprefix("not ").partition("=")[0] in there
