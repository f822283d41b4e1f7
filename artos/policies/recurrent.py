"""A recurrent actor-critic: a memory of the episode between encoder and heads."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn

from artos.envs.spec import EnvSpec
from artos.policies.acting import ACTOR_CRITIC, ActInfo
from artos.policies.distributions import OUT, head_for
from artos.policies.encoders import Encoder
from artos.policies.masks import masked
from artos.policies.twin_mlp import apply_heads, orthogonal
from artos.specs.keys import DataKey

Obs = dict[str, Tensor]
State = dict[str, Tensor]

MEMORY = "state.memory"


class Episodes(NamedTuple):
    """Sequences (T, B) cut where episodes end: S pieces, padded to the longest one of L steps."""

    first: Tensor
    """(S,): the number of a piece's column if it begins with the sequence, else -1."""
    where: Tensor
    """(L, S): numbers in the flattened (T * B) of each piece's steps, the last one repeated."""
    back: Tensor
    """(T * B,): the number of each step in the flattened (L * S)."""


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


class Memory(nn.Module):
    """Tanh layers, then a GRU (Cho et al. 2014) of ``width`` units."""

    def __init__(self, inside: int, hidden: Sequence[int], width: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for one, other in pairwise((inside, *hidden)):
            layers += [nn.Linear(one, other), nn.Tanh()]
        self.layers, self.gru = nn.Sequential(*layers), nn.GRU((inside, *hidden)[-1], width)

    def forward(self, seen: Tensor, state: Tensor) -> Tensor:
        """The memory at each step, (L, S, width), of sequences (L, S, inside) after (S, width)."""
        found: Tensor = self.gru(self.layers(seen), state.unsqueeze(0))[0]
        return found


class RecurrentActorCritic(nn.Module):
    """An actor-critic with a memory of the episode for each of the two, behind one encoder.

    Memories of their own keep the value's large errors from the policy's features. The state is
    (B, 2 * width), the policy's first, and zero where an episode begins. ``evaluate`` takes whole
    sequences, and forgets state after rows that end an episode.
    """

    outputs = ACTOR_CRITIC
    generator: torch.Generator | None = None

    def __init__(
        self,
        spec: EnvSpec,
        hidden: Sequence[int] = (64,),
        width: int = 64,
        *,
        normalize: bool = False,
        correlation: float = 0.0,
    ) -> None:
        super().__init__()
        self.spec, self.encoder, self.width = spec, Encoder(spec, normalize=normalize), width
        self.policy = Memory(self.encoder.width, hidden, width)
        self.critic = Memory(self.encoder.width, hidden, width)
        self.head = head_for(spec.actions, correlation)
        self.policy_weight = nn.Parameter(orthogonal(torch.empty(width, self.head.width), 0.01))
        self.policy_bias = nn.Parameter(torch.zeros(self.head.width))
        self.value_weight = nn.Parameter(orthogonal(torch.empty(width, 1), 1.0).squeeze(1))
        self.value_bias = nn.Parameter(torch.zeros(1))

    @property
    def state(self) -> tuple[DataKey, ...]:
        """The memories of both, one key."""
        return (DataKey(MEMORY, (2 * self.width,)),)

    def act(self, obs: Obs, info: ActInfo) -> dict[str, Tensor]:
        """Sample: ``actions`` (B, *shape), ``log_probs``, ``values`` (B,), and the new state."""
        return self.draw(self.answer(obs, info), info)

    def answer(self, obs: Obs, info: ActInfo) -> dict[str, Tensor]:
        """What the weights say of each row: all that ``draw`` needs, and no chance in it."""
        policy, critic = self._remember(self.encoder(obs).unsqueeze(0), info.state[MEMORY])
        out, values = self._heads(policy[0], critic[0])
        memory = torch.cat((policy[0], critic[0]), -1)
        given = self.head.given(len(out))
        return {OUT: masked(out, obs), "values": values, MEMORY: memory, **given}

    def draw(self, answer: dict[str, Tensor], info: ActInfo) -> dict[str, Tensor]:
        """What ``act`` returns, of an ``answer``: by no weights, so any process may do it."""
        actions, logs = self.head.sample(
            answer[OUT], self.generator, greedy=info.greedy, given=answer
        )
        return {
            "actions": actions, "log_probs": logs, "values": answer["values"],
            MEMORY: answer[MEMORY],
        }  # fmt: skip

    def value(self, obs: Obs, state: State) -> Tensor:
        """Values (B,) of observations after a state."""
        policy, critic = self._remember(self.encoder(obs).unsqueeze(0), state[MEMORY])
        return self._heads(policy[0], critic[0])[1]

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
        """The policy's last layer (T, B, width), masked, and values (T, B) of sequences."""
        steps, width = ends.shape
        seen = self.encoder({name: value.flatten(0, 1) for name, value in obs.items()})
        cut = episodes(ends)
        start = state[MEMORY][cut.first] * (cut.first >= 0).unsqueeze(1)
        both = self._remember(seen[cut.where], start)
        out, values = self._heads(*(each.flatten(0, 1)[cut.back] for each in both))
        return masked(out.view(steps, width, -1), obs), values.view(steps, width)

    def _remember(self, seen: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        policy, critic = (half.contiguous() for half in state.chunk(2, -1))
        return self.policy(seen, policy), self.critic(seen, critic)

    def _heads(self, policy: Tensor, critic: Tensor) -> tuple[Tensor, Tensor]:
        heads = (self.policy_weight, self.policy_bias, self.value_weight, self.value_bias)
        return apply_heads(policy, critic, heads)
