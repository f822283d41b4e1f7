"""Soft actor-critic on pictures with discrete actions (Christodoulou 2019), in the two parts of
``split_sac``: a sampler in each actor, and a learner with its replay buffer.

The networks are those of ``artos run sac``: the Nature network and two layers for the policy, and
one Nature network for both critics.
"""

from __future__ import annotations

import copy
import importlib
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from evaluation.baselines.one_file_ppo import make_atari
from evaluation.baselines.split_sac import AnySampler, Settings, layers

FEATURES, _SIDE = 512, 84
_POLICY, _CRITICS, _TEMPERATURE = range(3)


class Rows(NamedTuple):
    """Transitions: pictures (n, channels, 84, 84) uint8, and (n,) of the others."""

    seen: NDArray[np.uint8]
    actions: NDArray[np.int64]
    rewards: NDArray[np.float32]
    ended: NDArray[np.float32]
    after: NDArray[np.uint8]


def make(env: str) -> Any:
    """``pong``, ``breakout``, or ``MODULE:FACTORY`` of one with pictures (84, 84, channels)."""
    module, _, name = env.partition(":")
    return getattr(importlib.import_module(module), name)() if name else make_atari(env)


def nature(channels: int) -> nn.Sequential:
    """Pictures to 512 features."""
    return nn.Sequential(
        nn.Conv2d(channels, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(),
        nn.Conv2d(64, 64, 3, 1), nn.ReLU(), nn.Flatten(), nn.Linear(64 * 7 * 7, FEATURES),
        nn.ReLU(),
    )  # fmt: skip


class Policy(nn.Module):
    """Log probabilities (B, actions) of pictures."""

    def __init__(self, channels: int, actions: int, hidden: Sequence[int]) -> None:
        super().__init__()
        self.body, self.layers = nature(channels), layers(FEATURES, hidden, actions)

    def forward(self, pictures: Tensor) -> Tensor:
        """(B, channels, 84, 84) uint8 to (B, actions)."""
        return torch.log_softmax(self.layers(self.body(pictures.float() / 255)), -1)


class Critics(nn.Module):
    """Two critics behind one Nature network."""

    def __init__(self, channels: int, actions: int, hidden: Sequence[int]) -> None:
        super().__init__()
        self.body = nature(channels)
        self.both = nn.ModuleList(layers(FEATURES, hidden, actions) for _ in range(2))

    def forward(self, pictures: Tensor) -> Tensor:
        """(B, channels, 84, 84) uint8 to (2, B, actions)."""
        found = self.body(pictures.float() / 255)
        return torch.stack([critic(found) for critic in self.both])


class Sampler(AnySampler):
    """A game; ready once constructed."""

    def __init__(self, settings: Settings, seed: int) -> None:
        super().__init__(settings, seed)
        self._env = make(settings.env)
        self._choices = int(self._env.action_space.n)
        self._random = np.random.default_rng(seed)
        self._here = first_channels(self._env.reset(seed=seed)[0])
        self._policy = Policy(len(self._here), self._choices, settings.hidden)

    def _step(self, random: bool, returns: list[float]) -> tuple[Any, ...]:
        here = self._here
        action = int(self._random.integers(self._choices)) if random else self._act(here)
        seen, reward, ended, cut, _ = self._env.step(action)
        after = first_channels(seen)
        self._return, self._here = self._return + float(reward), after
        if ended or cut:
            returns.append(self._return)
            self._return, self._here = 0.0, first_channels(self._env.reset()[0])
        clipped = np.float32(np.sign(reward))
        return here, np.int64(action), clipped, np.float32(ended), after

    def _packed(self, rows: list[tuple[Any, ...]]) -> Rows:
        return Rows(*(np.array(column) for column in zip(*rows, strict=True)))

    def _act(self, here: NDArray[np.uint8]) -> int:
        chances = self._policy(torch.from_numpy(here)[None])[0].exp()
        return int(torch.multinomial(chances, 1))


def first_channels(seen: Any) -> NDArray[np.uint8]:
    """A picture as (channels, 84, 84)."""
    picture = np.asarray(seen)
    return np.ascontiguousarray(picture if len(picture) < _SIDE else picture.transpose(2, 0, 1))


class Replay:
    """Transitions in five arrays."""

    def __init__(self, capacity: int, channels: int) -> None:
        pictures = (capacity, channels, _SIDE, _SIDE)
        self._columns = [
            torch.zeros(pictures, dtype=torch.uint8), torch.zeros(capacity, dtype=torch.int64),
            torch.zeros(capacity), torch.zeros(capacity), torch.zeros(pictures, dtype=torch.uint8),
        ]  # fmt: skip
        self._capacity, self._added = capacity, 0

    def __len__(self) -> int:
        return min(self._added, self._capacity)

    def add(self, rows: Rows) -> None:
        """Add transitions, instead of the oldest ones if there is no room."""
        places = torch.arange(self._added, self._added + len(rows.actions)) % self._capacity
        for column, values in zip(self._columns, rows, strict=True):
            column[places] = torch.tensor(values)
        self._added += len(rows.actions)

    def draw(self, count: int) -> list[Tensor]:
        """Transitions, uniformly."""
        drawn = torch.randint(len(self), (count,))
        return [column[drawn] for column in self._columns]


class Learner:
    """Networks, optimisers and replay buffer; an update is one call of ``learn``."""

    def __init__(self, settings: Settings, seed: int) -> None:
        torch.manual_seed(seed)
        env = make(settings.env)  # only provides the shapes
        channels = len(first_channels(env.reset(seed=seed)[0]))
        actions = int(env.action_space.n)
        env.close()
        self.settings, self.updates = settings, 0
        self._wanted = 0.5 * math.log(actions)
        self.replay = Replay(min(settings.capacity, settings.total_steps), channels)
        self.policy = Policy(channels, actions, settings.hidden)
        self.critics = Critics(channels, actions, settings.hidden)
        for network in (self.policy, self.critics):  # as ARTOS has it, and faster on a CPU
            network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.targets = copy.deepcopy(self.critics).requires_grad_(False)
        self.log_temperature = torch.zeros(1, requires_grad=True)
        owned = (self.policy.parameters(), self.critics.parameters(), [self.log_temperature])
        self._trained: list[list[Tensor]] = [[*each] for each in owned]
        self._steppers = [torch.optim.Adam(p, settings.lr, fused=True) for p in self._trained]
        self._followers: list[Tensor] = [*self.targets.parameters()]

    def weights(self) -> dict[str, Any]:
        """The policy's newest weights."""
        return {n: value.contiguous().numpy() for n, value in self.policy.state_dict().items()}

    def learn(self) -> None:
        """A step of the critics, then of the policy, then of the temperature."""
        seen, actions, rewards, ended, after = self.replay.draw(self.settings.batch)
        temperature = self.log_temperature.detach().exp()
        with torch.no_grad():
            logs = self.policy(after)
            soft = self.targets(after).amin(0) - temperature * logs
            value = (logs.exp() * soft).sum(-1)
            wanted = rewards + self.settings.gamma * (1 - ended) * value
        found = self.critics(seen).gather(2, actions.expand(2, -1)[..., None])[..., 0]
        self._step(_CRITICS, 0.5 * (found - wanted).square().sum(0).mean())
        logs = self.policy(seen)
        with torch.no_grad():
            values = self.critics(seen).amin(0)
        self._step(_POLICY, (logs.exp() * (temperature * logs - values)).sum(-1).mean())
        entropy = -(logs.exp() * logs).sum(-1).mean().detach()
        self._step(_TEMPERATURE, (self.log_temperature * (entropy - self._wanted)).sum())
        torch._foreach_lerp_(self._followers, self._trained[_CRITICS], self.settings.tau)
        self.updates += 1

    def _step(self, which: int, loss: Tensor) -> None:
        self._steppers[which].zero_grad()
        loss.backward(inputs=self._trained[which])  # type: ignore[no-untyped-call]
        self._steppers[which].step()
