"""Soft actor-critic in two parts: a sampler in each actor, and a learner with its replay buffer.

This module does not depend on what starts the samplers or carries rounds and weights, which are
NumPy arrays. It needs torch and gymnasium alone.
"""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

Array = NDArray[np.float32]
Weights = Mapping[str, Array]

_LOWEST, _HIGHEST = -20.0, 2.0
_POLICY, _CRITICS, _TEMPERATURE = range(3)


@dataclass(frozen=True)
class Settings:
    """One run of SAC.

    ``steps``: environment steps of a round; ``ratio``: how often each transition is drawn once
    there are ``after`` of them, which are sampled at random; ``sync``: updates between the weights
    that samplers get; ``capacity``: the most transitions that are kept.
    """

    env: str = "Pendulum-v1"
    total_steps: int = 3_000
    steps: int = 8
    batch: int = 256
    ratio: float = 64.0
    after: int = 500
    hidden: tuple[int, ...] = (256, 256)
    gamma: float = 0.99
    lr: float = 3e-4
    tau: float = 0.005
    sync: int = 8
    capacity: int = 1_000_000

    def updates(self, transitions: int) -> int:
        """How many updates are due once there are so many transitions."""
        return max(0, math.floor((transitions - self.after) * self.ratio / self.batch))


@dataclass(frozen=True)
class Round:
    """One sampler's transitions, as it packs them, and the returns of the episodes that ended."""

    rows: Any
    returns: tuple[float, ...]


# -- networks ----------------------------------------------------------------------------------


class Policy(nn.Module):
    """Normal actions squashed by tanh, with a deviation that depends on the state; in -1 ... 1."""

    def __init__(self, inputs: int, actions: int, hidden: Sequence[int]) -> None:
        super().__init__()
        self.layers = layers(inputs, hidden, 2 * actions)

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """Actions (B, actions) and their log probabilities (B,)."""
        mean, log_std = self.layers(observations).chunk(2, -1)
        log_std = log_std.clamp(_LOWEST, _HIGHEST)
        noise = torch.randn_like(mean)
        before = mean + log_std.exp() * noise
        logs = -0.5 * noise.square() - log_std - 0.5 * math.log(2 * math.pi)
        # log(1 - tanh²), in the form that does not overflow (Haarnoja et al. 2018, appendix C).
        squashed = 2 * (math.log(2) - before - functional.softplus(-2 * before))
        return torch.tanh(before), (logs - squashed).sum(-1)


class Critics(nn.Module):
    """Two critics (Fujimoto et al. 2018)."""

    def __init__(self, inputs: int, actions: int, hidden: Sequence[int]) -> None:
        super().__init__()
        self.both = nn.ModuleList(layers(inputs + actions, hidden, 1) for _ in range(2))

    def forward(self, observations: Tensor, actions: Tensor) -> Tensor:
        """Values (2, B)."""
        x = torch.cat((observations, actions), 1)
        return torch.cat([critic(x) for critic in self.both], 1).t()


def layers(inputs: int, hidden: Sequence[int], outputs: int) -> nn.Sequential:
    """Linear layers with ReLU between them."""
    found: list[nn.Module] = []
    for width in hidden:
        found += [nn.Linear(inputs, width), nn.ReLU()]
        inputs = width
    return nn.Sequential(*found, nn.Linear(inputs, outputs))


# -- sampling ----------------------------------------------------------------------------------


class AnySampler:
    """Steps an environment by a policy that acts in it, on one thread, a round at a time.

    A subclass makes both, and says how to ``_step`` and what a round's rows are ``_packed`` into.
    """

    _policy: nn.Module

    def __init__(self, settings: Settings, seed: int) -> None:
        torch.set_num_threads(1)
        torch.manual_seed(seed)
        self._settings, self._version, self._return = settings, -1, 0.0

    def pid(self) -> int:
        """Its process id; an answer also means that everything is built."""
        return os.getpid()

    @torch.inference_mode()
    def sample(self, weights: Weights, version: int, *, random: bool) -> Round:
        """Make a round of transitions with these weights, or by ``random`` actions."""
        if version != self._version:
            self._policy.load_state_dict({n: torch.tensor(v) for n, v in weights.items()})
            self._version = version
        returns: list[float] = []
        rows = [self._step(random, returns) for _ in range(self._settings.steps)]
        return Round(self._packed(rows), tuple(returns))

    def _step(self, random: bool, returns: list[float]) -> Any:
        raise NotImplementedError

    def _packed(self, rows: list[Any]) -> Any:
        raise NotImplementedError


class Sampler(AnySampler):
    """An environment with vectors and bounded actions; ready once constructed."""

    def __init__(self, settings: Settings, seed: int) -> None:
        super().__init__(settings, seed)
        self._env: gym.Env[Any, Any] = gym.make(settings.env)
        inputs, actions, self._reach = sizes(self._env)
        self._policy = Policy(inputs, actions, settings.hidden)
        self._env.action_space.seed(seed)
        self._observation = self._env.reset(seed=seed)[0]

    def _step(self, random: bool, returns: list[float]) -> Array:
        here = self._observation
        action = self._act(here, random)
        after, reward, ended, truncated, _ = self._env.step(action * self._reach)
        found = np.array((float(reward), ended), np.float32)
        row = np.concatenate((here, action, found, after))
        self._return += float(reward)
        self._observation = after
        if ended or truncated:
            returns.append(self._return)
            self._return, self._observation = 0.0, self._env.reset()[0]
        return row

    def _packed(self, rows: list[Array]) -> Array:
        return np.stack(rows)

    def _act(self, observation: Array, random: bool) -> Array:
        if random:
            drawn: Array = self._env.action_space.sample() / self._reach
            return drawn
        acted: Array = self._policy(torch.from_numpy(observation)[None])[0][0].numpy()
        return acted


def sizes(env: gym.Env[Any, Any]) -> tuple[int, int, Array]:
    """Numbers of observations and of actions, and how far each action goes to both sides."""
    seen, actions = env.observation_space, env.action_space
    assert isinstance(seen, gym.spaces.Box)
    assert isinstance(actions, gym.spaces.Box)
    assert np.array_equal(actions.low, -actions.high)
    return seen.shape[0], actions.shape[0], actions.high


# -- learning ----------------------------------------------------------------------------------


class Replay:
    """Transitions as the rows of one array, so that a batch is drawn in one step."""

    def __init__(self, capacity: int, inputs: int, actions: int) -> None:
        self._parts = [inputs, actions, 1, 1, inputs]
        self._rows = torch.zeros(capacity, sum(self._parts))
        self._added = 0

    def __len__(self) -> int:
        return min(self._added, len(self._rows))

    def add(self, rows: Array) -> None:
        """Add transitions, instead of the oldest ones if there is no room."""
        places = torch.arange(self._added, self._added + len(rows)) % len(self._rows)
        self._rows[places] = torch.tensor(rows)
        self._added += len(rows)

    def draw(self, count: int) -> tuple[Tensor, ...]:
        """Observations, actions, rewards, terminations and the observations after, uniformly."""
        drawn = self._rows.index_select(0, torch.randint(len(self), (count,)))
        return torch.split(drawn, self._parts, 1)


class Learner:
    """Networks, optimisers and replay buffer; an update is one call of ``learn``."""

    def __init__(self, settings: Settings, seed: int) -> None:
        torch.manual_seed(seed)
        env = gym.make(settings.env)  # only provides the shapes
        inputs, actions, _ = sizes(env)
        env.close()
        self.settings, self.updates, self._wanted = settings, 0, -float(actions)
        self.replay = Replay(min(settings.capacity, settings.total_steps), inputs, actions)
        self.policy = Policy(inputs, actions, settings.hidden)
        self.critics = Critics(inputs, actions, settings.hidden)
        self.targets = copy.deepcopy(self.critics).requires_grad_(False)
        self.log_temperature = torch.zeros(1, requires_grad=True)
        owned = (self.policy.parameters(), self.critics.parameters(), [self.log_temperature])
        self._trained: list[list[Tensor]] = [[*each] for each in owned]
        self._steppers = [torch.optim.Adam(p, settings.lr, fused=True) for p in self._trained]
        self._followers: list[Tensor] = [*self.targets.parameters()]

    def weights(self) -> dict[str, Array]:
        """The policy's newest weights."""
        return {name: value.numpy() for name, value in self.policy.state_dict().items()}

    def learn(self) -> dict[str, Tensor]:
        """A step of the critics, then of the policy, then of the temperature."""
        batch = self.replay.draw(self.settings.batch)
        temperature = self.log_temperature.detach().exp()
        critic_loss = self._critic_loss(batch, temperature)
        self._step(_CRITICS, critic_loss)
        policy_loss, entropy = self._policy_loss(batch[0], temperature)
        self._step(_POLICY, policy_loss)
        self._step(_TEMPERATURE, (self.log_temperature * (entropy - self._wanted)).sum())
        torch._foreach_lerp_(self._followers, self._trained[_CRITICS], self.settings.tau)
        self.updates += 1
        return {"critic_loss": critic_loss.detach(), "entropy": entropy, "temperature": temperature}

    def _critic_loss(self, batch: Sequence[Tensor], temperature: Tensor) -> Tensor:
        observations, actions, rewards, ended, after = batch
        with torch.no_grad():
            next_actions, logs = self.policy(after)
            values = self.targets(after, next_actions).amin(0) - temperature * logs
            wanted = rewards[:, 0] + self.settings.gamma * (1 - ended[:, 0]) * values
        errors: Tensor = self.critics(observations, actions) - wanted
        return 0.5 * errors.square().sum(0).mean()

    def _policy_loss(self, observations: Tensor, temperature: Tensor) -> tuple[Tensor, Tensor]:
        """With the mean entropy, which has no gradient."""
        actions, logs = self.policy(observations)
        values = self.critics(observations, actions).amin(0)
        return (temperature * logs - values).mean(), -logs.detach().mean()

    def _step(self, which: int, loss: Tensor) -> None:
        self._steppers[which].zero_grad()
        # No other gradients: the policy's step needs none of the critics' weights.
        loss.backward(inputs=self._trained[which])  # type: ignore[no-untyped-call]
        self._steppers[which].step()
