"""A transformer that writes texts: it looks back only, and acts by what it is asked for later."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
import torch

from artos.envs.make import describe
from artos.errors import Refused
from artos.policies.acting import ActInfo, Declared
from artos.policies.build import check_policy
from artos.policies.fast import TextActor, TorchActor, make_actor
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


class Spied(TextActor):
    """Notes how many tokens of how many texts each call reads."""

    def __init__(self, module: TextPolicy, seed: int) -> None:
        super().__init__(module, seed)
        self.read: list[tuple[int, int]] = []
        read = module.read

        def noted(tokens: torch.Tensor, *more: Any) -> torch.Tensor:
            self.read.append((tokens.shape[0], tokens.shape[1]))
            return read(tokens, *more)

        module.read = noted  # type: ignore[method-assign]


def flat(policy: TextPolicy) -> Any:
    return np.concatenate([each.detach().numpy().ravel() for each in policy.parameters()])


def grown(text: Any, *written: tuple[int, ...]) -> Any:
    text = text.copy()
    for row, tokens in enumerate(written):
        at = np.count_nonzero(text[row])
        text[row, at : at + len(tokens)] = tokens
    return text


def test_what_was_read_is_not_read_again_and_nothing_else_changes() -> None:
    cached, plain = Spied(made(), 5), TorchActor(made(), 5)
    begun = np.array([[3, 1, 2, 11, 0, 0, 0], [9, 11, 0, 0, 0, 0, 0], [1, 2, 3, 11, 0, 0, 0]])
    other = begun[[1, 2, 0]]
    steps = [
        begun,
        grown(begun, (4,), (5,), (6,)),
        grown(begun, (4, 7), (5, 8, 9), (6, 1)),  # the second one was answered by its environment
        np.concatenate([other[:1], grown(begun, (4, 7, 2), (5, 8, 9, 1), ())[1:]]),  # one is new
        other,
        other,  # nothing was written: read anew
    ]
    for policy in (cached, plain):
        policy.bind(flat(made(1)))
    for text in steps:
        found, expected = (each.act({OBSERVATIONS: text}, ActInfo()) for each in (cached, plain))
        np.testing.assert_array_equal(found["actions"], expected["actions"])
        np.testing.assert_allclose(found["log_probs"], expected["log_probs"], atol=1e-6)
    anew = [(1, 2), (2, 4)]
    assert cached.read == [*anew, (3, 1), (2, 1), (1, 2), (1, 1), (1, 2), (1, 4), *anew, *anew]


def test_other_weights_and_another_number_of_texts_read_all_of_them_anew() -> None:
    cached, plain = Spied(made(), 5), TorchActor(made(), 5)
    begun = np.array([[3, 1, 2, 11, 0, 0, 0]] * 2)
    longer = grown(begun, (4,), (5,))
    for seed, text in ((1, begun), (2, longer), (2, longer[:1])):
        for policy in (cached, plain):
            policy.bind(flat(made(seed)))
        found, expected = (each.act({OBSERVATIONS: text}, ActInfo()) for each in (cached, plain))
        np.testing.assert_allclose(found["log_probs"], expected["log_probs"], atol=1e-6)
    assert cached.read == [(1, 4), (2, 5), (1, 5)]


def test_texts_that_begin_alike_are_read_once_and_go_on_apart() -> None:
    cached, plain = Spied(made(), 5), TorchActor(made(), 5)
    one, other, short = [3, 1, 2, 11, 0, 0, 0], [1, 2, 9, 11, 0, 0, 0], [9, 11, 0, 0, 0, 0, 0]
    begun = np.array([one, other, one, short, one, short])
    for policy in (cached, plain):
        policy.bind(flat(made(1)))
    steps = [begun, grown(begun, *((n,) for n in (1, 2, 3, 4, 5, 6)))]
    steps.append(grown(steps[1], *((n,) for n in (7, 7, 8, 8, 9, 9))))
    for text in steps:
        found, expected = (each.act({OBSERVATIONS: text}, ActInfo()) for each in (cached, plain))
        np.testing.assert_allclose(found["log_probs"], expected["log_probs"], atol=1e-6)
    assert cached.read == [(1, 2), (2, 4), (6, 1), (6, 1)]


def test_texts_that_all_differ_are_read_each_by_itself_in_any_order() -> None:
    cached, plain = Spied(made(), 5), TorchActor(made(), 5)
    begun = np.array([[9, 1, 4, 11, 0, 0], [1, 2, 3, 11, 0, 0], [5, 5, 1, 11, 0, 0]])
    for policy in (cached, plain):
        policy.bind(flat(made(1)))
    for text in (begun, grown(begun, (4,), (5,), (6,))):
        found, expected = (each.act({OBSERVATIONS: text}, ActInfo()) for each in (cached, plain))
        np.testing.assert_allclose(found["log_probs"], expected["log_probs"], atol=1e-6)
    assert cached.read == [(3, 4), (3, 1)]


def test_actors_read_so_and_learners_do_not() -> None:
    actor = make_actor(made(), SPEC, 1)
    assert type(actor) is TextActor
    assert made().cache is None
