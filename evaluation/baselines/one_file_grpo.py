"""The reference: GRPO on digits written backwards, in one file and one process, written by us.

No buffer, no triggers, no other processes: write texts, compare those of each prompt, step, repeat.
With a lag of n a round is learned from n updates after it was written, and waits in a queue until
then (Shao et al. 2024; the loss is Prime-RL's). Network, batch, loss, optimiser, task and pay
are those of ``artos run grpo``.

``python -m evaluation.baselines.one_file_grpo --lag 1 --seed 1`` prints how many updates it took.
"""

from __future__ import annotations

import argparse
from collections import deque
from statistics import mean
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, scaled_dot_product_attention

from evaluation.baselines.timing import answer

DIGITS, ASK, END, TOKENS = 6, 11, 0, 12
"""Tokens 1 to 10 are the digits, ``ASK`` ends a prompt, and ``END`` a text before its time."""
WIDTH, LAYERS, HEADS = 96, 2, 4
PROMPTS, GROUP = 32, 16
STEP_SIZE, EPSILON, GRADIENT_NORM = 1e-3, 1e-5, 1.0
FAR, BOUND, PULL = 0.2, 8.0, 1e-3
"""How far a probability may go until it is masked, the most that a ratio counts, and the weight of
the squared logarithm of the ratio."""
RIGHT = 0.9
"""The share of a batch's texts that are right in full, at which it is over."""
REACHED, LAG = "updates to nine of ten", "lag"


class Block(nn.Module):
    """Causal attention and two layers, each behind a normalisation and added to what came in."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.parts, self.mix = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.wide, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """(N, n, WIDTH) to the same."""
        parts = self.parts(self.before(x)).unflatten(-1, (3, HEADS, -1))
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        met = scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.mix(met.transpose(1, 2).flatten(2))
        out: Tensor = x + self.narrow(gelu(self.wide(self.between(x))))
        return out


class Transformer(nn.Module):
    """Scores each token to come by those before it."""

    def __init__(self) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(TOKENS, WIDTH), nn.Embedding(2 * DIGITS + 1, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, TOKENS)

    def forward(self, text: Tensor) -> Tensor:
        """Texts (N, n) to the logarithms of probabilities of what follows each token (N, n, t)."""
        seen = self.blocks(self.token(text) + self.place.weight[: text.shape[1]])
        return torch.log_softmax(self.out(self.norm(seen)), -1)


class Round(NamedTuple):
    """Texts (N, 13) with what their last six tokens, (N, 6), were written with, and are worth."""

    text: Tensor
    logs: Tensor
    valid: Tensor
    """Tokens up to the end of the text."""
    gains: Tensor
    exact: float
    version: int


def judged(digits: Tensor, said: Tensor) -> tuple[Tensor, Tensor]:
    """What texts (N, 6) are paid (N,), and which of their tokens count (N, 6).

    It is 1 if all digits are right, else half of the share that is.
    """
    ends = said == END
    valid = ends.cumsum(1) - ends.long() == 0
    share = ((said == digits.flip(1)) & valid).float().mean(1)
    return torch.where(share == 1, 1.0, share / 2), valid


def compared(paid: Tensor) -> Tensor:
    """How many deviations of its group each text (N,) is paid beyond its mean, (N,)."""
    groups = paid.view(-1, GROUP)
    deviations = groups.std(1, keepdim=True) + 1e-4
    return ((groups - groups.mean(1, keepdim=True)) / deviations).flatten()


@torch.no_grad()
def written(model: Transformer, version: int) -> Round:
    """A round of texts."""
    digits = torch.randint(1, ASK, (PROMPTS, DIGITS)).repeat_interleave(GROUP, 0)
    text = torch.cat([digits, torch.full((len(digits), 1), ASK)], 1)
    logs = list[Tensor]()
    for _ in range(DIGITS):
        scores = model(text)[:, -1]
        token = torch.multinomial(scores.exp(), 1)
        logs.append(scores.gather(1, token))
        text = torch.cat([text, token], 1)
    paid, valid = judged(digits, text[:, -DIGITS:])
    exact = float((paid == 1).float().mean())
    return Round(text, torch.cat(logs, 1), valid, compared(paid), exact, version)


def loss_of(logs: Tensor, found: Round) -> Tensor:
    """The loss, by the logarithms (N, 6) of the probabilities that the network has now."""
    change, gains = logs - found.logs, found.gains.unsqueeze(1)
    moved = (logs.exp() - found.logs.exp()).detach()
    gained = torch.where(moved * gains.sign() > FAR, 0, change.exp().clamp(max=BOUND) * gains)
    return (PULL * change.square() - gained)[found.valid].mean()


def train(seed: int, lag: int, most: int) -> dict[str, float]:
    """Learn until a batch is right; returns updates till then, none if ``most`` are too few.

    And how many versions old the rounds were on average.
    """
    torch.manual_seed(seed)
    model = Transformer()
    optimiser = torch.optim.AdamW(
        model.parameters(), STEP_SIZE, eps=EPSILON, weight_decay=0.0, fused=True
    )
    waiting, lags = deque[Round](), list[int]()
    for update in range(most):
        while len(waiting) <= lag:
            waiting.append(written(model, update))
        found = waiting.popleft()
        lags.append(update - found.version)
        scores = model(found.text[:, :-1])[:, -DIGITS:]
        loss = loss_of(scores.gather(-1, found.text[:, -DIGITS:, None]).squeeze(-1), found)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), GRADIENT_NORM)
        optimiser.step()
        if found.exact >= RIGHT:
            return {REACHED: update + 1, LAG: mean(lags)}
    return {LAG: mean(lags)}


def main() -> None:
    """Train once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lag", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--most", type=int, default=150)
    options = parser.parse_args()
    torch.set_num_threads(1)
    answer(train(options.seed, options.lag, options.most), ("torch",))


if __name__ == "__main__":
    main()
