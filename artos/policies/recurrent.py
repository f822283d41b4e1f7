"""A recurrent actor-critic: a memory of the episode between encoder and heads."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn

from artos.envs.spec import EnvSpec
from artos.policies.acting import ACTOR_CRITIC, ActInfo
from artos.policies.distributions import head_for
from artos.policies.encoders import Encoder
from artos.policies.twin_mlp import apply_heads, orthogonal
from artos.spec import DataKey

Obs = dict[str, Tensor]
State = dict[str, Tensor]

MEMORY = "state.memory"


class Episodes(NamedTuple):
    """Sequences (T, B) cut where episodes end: S pieces, padded to the longest of L steps.

    ``first`` (S,) is the number of a piece's column if it begins with the sequence, else -1;
    ``where`` (L, S) numbers the steps of each piece in the flattened (T * B), the last one again
    where it is over; ``back`` (T * B,) numbers each step in the flattened (L * S).
    """

    first: Tensor
    where: Tensor
    back: Tensor


def episodes(ends: Tensor) -> Episodes:
    """Cut sequences after each row where ``ends`` (T, B) bool is true."""
    steps, width = ends.shape
    begins = torch.ones_like(ends)
    begins[1:] = ends[:-1]
    # Column by column: the steps of a piece follow one another.
    piece = begins.t().reshape(-1).cumsum(0) - 1
    start = begins.t().reshape(-1).nonzero().squeeze(1)
    within = torch.arange(steps * width, device=ends.device) - start[piece]
    longest, count = int(within.max()) + 1, len(start)
    lengths = torch.bincount(piece)
    offsets = torch.arange(longest, device=ends.device).unsqueeze(1)
    at = start + torch.minimum(offsets, lengths - 1)  # numbers in (B, T)
    column, step = start.div(steps, rounding_mode="floor"), start % steps
    where = at % steps * width + at.div(steps, rounding_mode="floor")
    back = (within * count + piece).reshape(width, steps).t().reshape(-1)
    return Episodes(torch.where(step == 0, column, -1), where, back)


class RecurrentActorCritic(nn.Module):
    """An actor-critic with a GRU (Cho et al. 2014) of ``width`` units, shared by both.

    Its state is (B, width), zero where an episode begins. ``evaluate`` takes sequences: all of
    their rows count, and state is forgotten after rows that end an episode.
    """

    outputs = ACTOR_CRITIC
    generator: torch.Generator | None = None

    def __init__(self, spec: EnvSpec, hidden: Sequence[int] = (64,), width: int = 64) -> None:
        super().__init__()
        self.spec, self.encoder = spec, Encoder(spec)
        layers: list[nn.Module] = []
        sides = (self.encoder.width, *hidden)
        for inside, outside in pairwise(sides):
            layers += [nn.Linear(inside, outside), nn.Tanh()]
        self.layers, self.memory = nn.Sequential(*layers), nn.GRU(sides[-1], width)
        self.head = head_for(spec.actions)
        self.policy_weight = nn.Parameter(orthogonal(torch.empty(width, self.head.width), 0.01))
        self.policy_bias = nn.Parameter(torch.zeros(self.head.width))
        self.value_weight = nn.Parameter(orthogonal(torch.empty(width, 1), 1.0).squeeze(1))
        self.value_bias = nn.Parameter(torch.zeros(1))

    @property
    def state(self) -> tuple[DataKey, ...]:
        """The units of the memory."""
        return (DataKey(MEMORY, (self.memory.hidden_size,)),)

    def act(self, obs: Obs, info: ActInfo) -> dict[str, Tensor]:
        """Sample: ``actions`` (B, *shape), ``log_probs``, ``values`` (B,), and the new state."""
        features, memory = self._step(obs, info.state[MEMORY])
        out, values = self._heads(features)
        actions, logs = self.head.sample(out, self.generator, greedy=info.greedy)
        return {"actions": actions, "log_probs": logs, "values": values, MEMORY: memory}

    def value(self, obs: Obs, state: State) -> Tensor:
        """Values (B,) of observations after a state."""
        return self._heads(self._step(obs, state[MEMORY])[0])[1]

    def evaluate(
        self, obs: Obs, actions: Tensor, state: State, ends: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Log probabilities, entropy and values of sequences, each (T, B), with gradients.

        ``obs`` and ``actions`` are (T, B, *shape), ``state`` (B, *shape) is that of the first rows,
        ``ends`` (T, B) bool says after which rows an episode ends.
        """
        out, values = self.unroll(obs, state, ends)
        logs, entropy = self.head.evaluate(out.flatten(0, 1), actions.flatten(0, 1))
        return logs.view(ends.shape), entropy.reshape(ends.shape), values

    def unroll(self, obs: Obs, state: State, ends: Tensor) -> tuple[Tensor, Tensor]:
        """The policy's last layer (T, B, width) and values (T, B) of sequences."""
        steps, width = ends.shape
        flat = {name: value.flatten(0, 1) for name, value in obs.items()}
        seen, cut = self.layers(self.encoder(flat)), episodes(ends)
        start = state[MEMORY][cut.first] * (cut.first >= 0).unsqueeze(1)
        found, _ = self.memory(seen[cut.where], start.unsqueeze(0))
        out, values = self._heads(found.flatten(0, 1)[cut.back])
        return out.view(steps, width, -1), values.view(steps, width)

    def _step(self, obs: Obs, memory: Tensor) -> tuple[Tensor, Tensor]:
        seen = self.layers(self.encoder(obs))
        found, last = self.memory(seen.unsqueeze(0), memory.unsqueeze(0))
        return found.squeeze(0), last.squeeze(0)

    def _heads(self, features: Tensor) -> tuple[Tensor, Tensor]:
        heads = (self.policy_weight, self.policy_bias, self.value_weight, self.value_bias)
        return apply_heads(features, features, heads)
