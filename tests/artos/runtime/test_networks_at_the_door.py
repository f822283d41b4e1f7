"""Registration builds a workload's network once, and looks at every one that is a user's own."""

from __future__ import annotations

from pathlib import Path

import pytest
from inline_runs import registered

from artos.errors import Refused
from artos.policies.build import Policy

WORKLOAD = """
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

from artos import RolloutActor
from artos.policies.build import Policy
from triggers.algorithms.ppo import workload as ppo


class Deaf(nn.Module):
    def act(self, obs, info):
        return {}

    def evaluate(self, obs, actions):
        return ()


class Builds(RolloutActor):
    def build_module(self, seed):
        return Deaf()


class Silent(Builds):
    def faults(self, module):
        return []


class Ours(Policy):
    def build(self, spec, seed):
        return Deaf()


def fits(spec):
    with Path(__file__).with_name("built").open("a") as built:
        print("once", file=built)
    return Policy().build(spec, 0)


def masking(spec):
    module = Policy().build(spec, 0)
    module.body.register_buffer("later", torch.full((3, 3), -torch.inf).triu(1))
    return module


def workload(actor):
    return replace(ppo("CartPole-v1", 1, 64, envs=1, steps=16, minibatches=1), actor=actor)


def counted():
    return workload(RolloutActor("CartPole-v1", fits, 1))


def infinite():
    return workload(RolloutActor("CartPole-v1", masking, 1))


def function():
    return workload(RolloutActor("CartPole-v1", lambda spec: Deaf(), 1))


def policy():
    return workload(RolloutActor("CartPole-v1", Ours(), 1))


def actor():
    return workload(Builds("CartPole-v1", None, 1))


def silent():
    return workload(Silent("CartPole-v1", None, 1))
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A user's folder with those workloads."""
    (tmp_path / "networks.py").write_text(WORKLOAD)
    return tmp_path


def test_ours_is_built_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seeds: list[int] = []
    build = Policy.build

    def counting(self: Policy, spec: object, seed: int) -> object:
        seeds.append(seed)
        return build(self, spec, seed)  # type: ignore[arg-type]

    monkeypatch.setattr(Policy, "build", counting)
    registered("ppo", tmp_path)
    assert seeds == [1]


def test_a_users_function_is_called_for_its_outputs_and_for_its_network(home: Path) -> None:
    registered("networks.py:counted", home)
    assert (home / "built").read_text() == "once\nonce\n"


@pytest.mark.parametrize("name", ["function", "policy", "actor"])
def test_what_does_not_fit_is_refused_wherever_it_comes_from(name: str, home: Path) -> None:
    with pytest.raises(Refused) as refused:
        registered(f"networks.py:{name}", home)
    words = "act(obs, info) must return a tensor under 'actions'"
    assert sum(words in fault for fault in refused.value.faults) == 1


def test_an_actor_that_answers_for_its_network_is_believed(home: Path) -> None:
    """As one must whose network is none of PyTorch's; here that ends in the learner's set-up."""
    with pytest.raises(Refused, match="the learner cannot be built"):
        registered("networks.py:silent", home)


def test_a_network_that_begins_with_what_no_version_may_hold_is_refused_by_name(
    home: Path,
) -> None:
    """As a mask of -inf, which is a buffer: its learner would be started again and again."""
    with pytest.raises(Refused, match=r"body\.later begins with -inf"):
        registered("networks.py:infinite", home)
