"""A transformer that writes texts: it looks back only, and acts by what it is asked for later."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import torch

from artos.envs.make import describe
from artos.errors import Refused
from artos.policies.acting import ActInfo, Declared
from artos.policies.build import check_policy
from artos.policies.text import TextPolicy, lengths_of
from artos.specs.keys import OBSERVATIONS

SPEC = describe("ReverseText-v0(digits=3)")
TEXTS = torch.tensor([[3, 1, 2, 11, 0, 0, 0], [9, 9, 1, 11, 4, 5, 0], [1, 2, 3, 11, 7, 0, 0]])


def made(seed: int = 0, **sizes: int) -> TextPolicy:
    torch.manual_seed(seed)
    return TextPolicy(SPEC, **{"width": 16, "layers": 2, "heads": 2} | sizes)


def test_what_follows_a_place_depends_on_nothing_behind_it() -> None:
    policy, places = made(), torch.tensor([[1, 4]] * 3)
    whole = policy.scores(TEXTS, places)
    torch.testing.assert_close(policy.scores(TEXTS[:, :4], places), whole)
    other = TEXTS.clone()
    other[:, 1:] = 5
    changed = policy.scores(other, places)
    torch.testing.assert_close(changed[:, 0], whole[:, 0])
    assert not torch.allclose(changed[:, 1], whole[:, 1])


def test_a_token_has_the_probability_that_the_learner_finds_later() -> None:
    policy, lengths = made(), lengths_of(TEXTS)
    assert lengths.tolist() == [4, 6, 5]
    acted = policy.act({OBSERVATIONS: TEXTS}, ActInfo())
    logs = policy.scores(TEXTS, lengths[:, None])[:, 0].log_softmax(-1)
    found = logs.gather(1, acted["actions"][:, None])[:, 0]
    torch.testing.assert_close(acted["log_probs"], found)
    greedy = policy.act({OBSERVATIONS: TEXTS}, ActInfo(greedy=True))
    assert torch.equal(greedy["actions"], logs.argmax(-1))
    assert not check_policy(policy, SPEC, Declared.by(TextPolicy, made))


@pytest.mark.parametrize("sizes", [{"width": 10, "heads": 4}, {"layers": 0}, {"heads": 0}])
def test_sizes_that_are_none(sizes: dict[str, int]) -> None:
    with pytest.raises(Refused, match="each is at least 1, and width a multiple of heads"):
        made(**sizes)


@pytest.mark.parametrize(
    "change",
    [
        {"chosen": False},
        {"parts": (SPEC.parts[0], SPEC.parts[0])},
        {"parts": (msgspec.structs.replace(SPEC.parts[0], sizes=(13,) * 7),)},
        {"actions": msgspec.structs.replace(SPEC.actions, start=(1,))},
    ],
)
def test_what_is_no_text(change: dict[str, Any]) -> None:
    with pytest.raises(Refused, match=r"TextPolicy writes texts, but .*: run dqn, .* on it"):
        TextPolicy(msgspec.structs.replace(SPEC, **change))
