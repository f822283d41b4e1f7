"""A policy that writes texts: a small causal transformer over the tokens so far."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from artos.envs.spec import EnvSpec
from artos.errors import Refused
from artos.policies.acting import ActInfo
from artos.policies.choosing import instead_of
from artos.policies.distributions import Categorical
from artos.policies.products import Linear
from artos.policies.text_cache import LayerRead, TextCache
from artos.specs.keys import OBSERVATIONS

Obs = dict[str, Tensor]


def require_texts(spec: EnvSpec, chooser: str) -> None:
    """Refuse an environment that is not a text which is written token by token.

    Raises:
        Refused: it shows anything but tokens, chooses among others than these, or resets itself.
    """
    actions, parts = spec.actions, spec.parts
    tokens = set(parts[0].sizes) == set(actions.sizes) and len(parts) == 1 and not parts[0].start
    if not (tokens and actions.kind == "discrete" and not actions.start and spec.chosen):
        raise Refused([_NO_TEXT.format(chooser, spec.name, instead_of(actions))])


def lengths_of(text: Tensor) -> Tensor:
    """How many tokens are written, (...) int64, of texts (..., L) that hold 0 behind them."""
    return torch.count_nonzero(text, -1)


class TextModule(nn.Module):
    """A causal transformer that writes texts of up to L tokens, 0 where nothing is written yet.

    Each call reads the whole text again, unless there is a ``cache``: whoever binds other weights
    has it forget.
    """

    outputs: tuple[str, ...] = ("log_probs",)
    head: Categorical
    cache: TextCache | None = None
    sizes: tuple[int, int, int]
    """Layers, heads that keep keys and values, and the width of all these."""

    def scores(self, text: Tensor, lengths: Tensor) -> Tensor:
        """Logits (B, k, tokens) of what follows the first ``lengths`` (B, k) tokens of each text.

        ``text`` is (B, n) int64 with n of at least the longest, and at most L.
        """
        raise NotImplementedError

    def read(self, tokens: Tensor, places: Tensor, read: Sequence[LayerRead]) -> Tensor:
        """Logits (n, tokens) behind the last of ``tokens`` (n, m), which follow what was read."""
        raise NotImplementedError

    def act(self, obs: Obs, info: ActInfo) -> dict[str, Tensor]:
        """``actions`` (B,) int64, the next tokens, and their ``log_probs`` (B,)."""
        text = obs[OBSERVATIONS]
        lengths = lengths_of(text)
        if self.cache is not None:
            logits = self.cache.scores(text, lengths, self.read)
        else:
            if not torch.compiler.is_compiling():  # an exported program has one shape
                text = text[:, : max(1, int(lengths.max()))]
            logits = self.scores(text, lengths.unsqueeze(1)).squeeze(1)
        actions, log_probs = self.head.sample(logits, greedy=info.greedy)
        return {"actions": actions, "log_probs": log_probs}


def at_ends(seen: Tensor, lengths: Tensor) -> Tensor:
    """Of ``seen`` (B, n, width), what stands at the last of the first ``lengths`` (B, k) tokens."""
    last = (lengths.clamp(min=1) - 1).unsqueeze(-1).expand(-1, -1, seen.shape[-1])
    return seen.gather(1, last)


class TextPolicy(TextModule):
    """Scores each token to come by those before it (Radford et al. 2019, in small).

    Raises:
        Refused: the environment is no text, or ``width`` does not divide by ``heads``.
    """

    def __init__(self, spec: EnvSpec, width: int = 96, layers: int = 2, heads: int = 4) -> None:
        super().__init__()
        require_texts(spec, type(self).__name__)
        if min(width, layers, heads) < 1 or width % heads:
            sizes = f"width={width}, layers={layers}, heads={heads}"
            raise Refused([f"{sizes}: each is at least 1, and width a multiple of heads"])
        self.head = Categorical(spec.actions.sizes[0])
        self.token = nn.Embedding(self.head.width, width)
        self.place = nn.Embedding(spec.parts[0].shape[0], width)
        self.blocks = nn.Sequential(*(_Block(width, heads) for _ in range(layers)))
        self.norm, self.out = nn.LayerNorm(width), Linear(width, self.head.width)
        self.sizes = (layers, heads, width)

    def scores(self, text: Tensor, lengths: Tensor) -> Tensor:
        """As any ``TextModule``."""
        seen = self.token(text) + self.place.weight[: text.shape[1]]
        found: Tensor = self.out(self.norm(at_ends(self.blocks(seen), lengths)))
        return found

    def read(self, tokens: Tensor, places: Tensor, read: Sequence[LayerRead]) -> Tensor:
        """As any ``TextModule``."""
        seen = self.token(tokens) + self.place(places)
        for block, layer in zip(self.blocks, read, strict=True):
            seen = block(seen, layer)
        found: Tensor = self.out(self.norm(seen[:, -1]))
        return found


class _Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self._heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.asks, self.mix = Linear(width, 3 * width), Linear(width, width)
        self.wide, self.narrow = Linear(width, 4 * width), Linear(4 * width, width)

    def forward(self, x: Tensor, read: LayerRead | None = None) -> Tensor:
        parts = self.asks(self.before(x)).unflatten(-1, (3, self._heads, -1))
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        if read is None:
            met = scaled_dot_product_attention(query, key, value, is_causal=True)
        else:
            key, value, seen = read.take(key, value)
            met = scaled_dot_product_attention(query, key, value, attn_mask=seen)
        x = x + self.mix(met.transpose(1, 2).flatten(2))
        thought: Tensor = self.narrow(nn.functional.gelu(self.wide(self.between(x))))
        return x + thought


_NO_TEXT = (
    "{} writes texts, but {} is none: a text shows MultiDiscrete([tokens] * length), 0 where "
    "nothing is written, and takes the next token as Discrete(tokens), one text at a time: run {}"
)
