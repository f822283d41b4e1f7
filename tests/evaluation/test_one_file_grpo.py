"""The reference of GRPO must be the same algorithm as ours, or updates say nothing."""

from __future__ import annotations

import inspect
import math

import pytest
import torch

from artos.envs.make import describe
from artos.envs.reverse import Reverse
from artos.losses.grpo import group_advantages, grpo_loss
from artos.policies.text import TextPolicy
from evaluation.baselines import one_file_grpo as reference
from triggers.algorithms.grpo import GRPOSettings

SPEC = describe("ReverseText-v0")


def test_its_network_is_ours() -> None:
    ours, theirs = TextPolicy(SPEC), reference.Transformer()
    with torch.no_grad():
        for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            assert mine.shape == other.shape
            other.copy_(mine)
    text = torch.randint(1, 12, (5, 13))
    found = torch.log_softmax(ours.scores(text, torch.arange(1, 14).expand(5, -1)), -1)
    torch.testing.assert_close(theirs(text), found)


def test_its_settings_are_ours() -> None:
    usual = {
        name: each.default for name, each in inspect.signature(GRPOSettings).parameters.items()
    }
    alike = {
        "width": reference.WIDTH, "layers": reference.LAYERS, "heads": reference.HEADS,
        "group": reference.GROUP, "lr": reference.STEP_SIZE, "kl": reference.PULL,
        "mask_low": reference.FAR, "mask_high": reference.FAR, "delta": reference.BOUND,
        "max_grad_norm": reference.GRADIENT_NORM,
    }  # fmt: skip
    assert alike == {name: usual[name] for name in alike}
    assert usual["actors"] * usual["groups"] == reference.PROMPTS
    assert SPEC.parts[0].shape == (2 * reference.DIGITS + 1,)
    assert SPEC.actions.sizes == (reference.TOKENS,)


def test_its_loss_is_ours() -> None:
    torch.manual_seed(1)
    texts = 2 * reference.GROUP
    old, new = torch.randn(2, texts, reference.DIGITS).abs().neg()
    new[0, 0], old[0, 0] = -0.01, -4.0  # a ratio beyond its bound
    paid, valid = torch.rand(texts), torch.rand(texts, reference.DIGITS) < 0.8
    gains = reference.compared(paid)
    torch.testing.assert_close(gains, group_advantages(paid, reference.GROUP, normalize=True))
    nothing = torch.zeros(0)
    found = reference.Round(nothing, old, valid, gains, 0.0, 0)
    each = (x.flatten() for x in (new, old, gains.unsqueeze(1).expand_as(new), valid))
    wanted, report = grpo_loss(*each, mask_low=0.2, mask_high=0.2, delta=8.0, kl=1e-3)
    assert 0 < report["mask_fraction"] < 1
    torch.testing.assert_close(reference.loss_of(new, found), wanted)


@pytest.mark.parametrize("right", range(7))
@pytest.mark.parametrize("end", [reference.DIGITS, 2])
def test_a_text_is_paid_as_ours(right: int, end: int) -> None:
    env = Reverse()
    shown, _ = env.reset(seed=right)
    asked = torch.tensor(shown[None, : reference.DIGITS])
    said = asked.flip(1)
    said[:, right:] = said[:, right:] % 10 + 1  # wrong
    said[:, end:] = reference.END
    rewards = [env.step(token)[1:3] for token in said[0, : end + 1].tolist()]
    paid, valid = reference.judged(asked, said)
    assert (float(paid), True) == pytest.approx(rewards[-1])
    assert int(valid.sum()) == len(rewards)


@pytest.mark.parametrize(("lag", "lags"), [(0, [0, 0, 0, 0]), (1, [0, 1, 1, 1]), (2, [0, 1, 2, 2])])
def test_rows_are_as_old_as_said(
    lag: int, lags: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reference, "PROMPTS", 1)
    assert reference.train(1, lag, 4) == {reference.LAG: math.fsum(lags) / 4}
