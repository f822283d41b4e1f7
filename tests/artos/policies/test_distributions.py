from __future__ import annotations

import pytest
import torch
from spaces_for_tests import ACTIONS
from torch.distributions import Categorical as Reference
from torch.distributions import Normal

from artos.envs.spec import ActionSpec
from artos.policies.distributions import head_for


def reference(actions: ActionSpec, out: torch.Tensor, taken: torch.Tensor, log_std: torch.Tensor):
    """Log probabilities and entropy by torch.distributions."""
    flat = taken.reshape(len(taken), -1)
    if actions.kind == "box":
        normal = Normal(out, log_std.exp())
        return normal.log_prob(flat).sum(1), normal.entropy().sum(1)
    parts = [Reference(logits=piece) for piece in torch.split(out, list(actions.sizes), 1)]
    logs = sum(p.log_prob(c) for p, c in zip(parts, flat.unbind(1), strict=True))
    return logs, sum(p.entropy() for p in parts)


@pytest.mark.parametrize("actions", ACTIONS, ids=[a.kind for a in ACTIONS])
def test_heads_agree_with_torch_distributions(actions: ActionSpec) -> None:
    torch.manual_seed(0)
    head = head_for(actions)
    log_std = torch.zeros(head.width)
    if actions.kind == "box":
        with torch.no_grad():
            log_std = head.log_std.normal_()
    out = torch.randn(50, head.width) * 3
    taken, drawn_logs = head.sample(out)
    logs, entropy = head.evaluate(out, taken)
    expected_logs, expected_entropy = reference(actions, out, taken, log_std)
    torch.testing.assert_close(logs, expected_logs)
    torch.testing.assert_close(drawn_logs, expected_logs)
    torch.testing.assert_close(entropy, expected_entropy)
    assert taken.shape == (50, *actions.shape)


@pytest.mark.parametrize("actions", ACTIONS, ids=[a.kind for a in ACTIONS])
def test_torch_samples_follow_the_distribution(actions: ActionSpec) -> None:
    head = head_for(actions)
    row = torch.linspace(-1, 1, head.width)
    generator = torch.Generator().manual_seed(0)
    taken = head.sample(row.expand(40_000, -1), generator)[0].reshape(40_000, -1)
    if actions.kind == "box":
        torch.testing.assert_close(taken.mean(0), row, atol=0.03, rtol=0)
        return
    for column, logits in zip(taken.unbind(1), torch.split(row, list(actions.sizes)), strict=True):
        shares = torch.bincount(column, minlength=len(logits)) / len(column)
        torch.testing.assert_close(shares, logits.softmax(0), atol=0.015, rtol=0)
