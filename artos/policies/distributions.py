"""Action distributions: torch heads for the learner and their NumPy twins for actors."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Protocol, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from artos.envs.spec import ActionSpec
from artos.errors import Refused
from artos.policies.bounds import Bounds, are_own_units, units_of
from artos.system.snapshot import put_back, taken

Floats = NDArray[np.float32]
LOG_2PI = math.log(2 * math.pi)
OUT, LOG_STD = "out", "log_std"
"""Names in an answer: the policy's last layer (B, width), and a head's own weights in each row."""
NONE_GIVEN: Mapping[str, Tensor] = MappingProxyType({})
_MOST_AHEAD, _BYTES_AHEAD = 256, 2**20


class Head(nn.Module):
    """Turns the policy's last layer, (B, width), into actions."""

    width: int
    """How wide that layer is."""

    def sample(
        self, out: Tensor, generator: torch.Generator | None = None, *, greedy: bool = False,
        given: Mapping[str, Tensor] = NONE_GIVEN,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """Draw actions (B, *shape) and their log probabilities (B,) float32.

        ``greedy`` takes the likeliest action instead. Its own weights are those that are ``given``,
        if there are any.
        """
        raise NotImplementedError

    def evaluate(self, out: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Log probabilities (B,) of given actions and the entropy (B,)."""
        raise NotImplementedError

    def given(self, rows: int) -> dict[str, Tensor]:
        """The weights of its own that ``sample`` needs, in each of so many rows."""
        del rows
        return {}


class Rated(NamedTuple):
    """Actions that a head has evaluated without autograd."""

    log_probs: Tensor
    entropy: Tensor
    gradients: Callable[[Tensor, Tensor], tuple[Tensor, ...]]
    """Of the last layer, and of the head's parameters, by those of log-probabilities and
    entropies, (B,) each."""


class Categorical(Head):
    """One choice out of ``width``; actions are int64 (B,)."""

    def __init__(self, choices: int) -> None:
        super().__init__()
        self.width = choices

    def sample(
        self, out: Tensor, generator: torch.Generator | None = None, *, greedy: bool = False,
        given: Mapping[str, Tensor] = NONE_GIVEN,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """Draw by an exponential race: the smallest of Exp(1)/p wins with probability p."""
        logs = torch.log_softmax(out.float(), -1)
        if greedy:
            actions = logs.argmax(-1)
            return actions, _pick(logs, actions)
        noise = torch.empty_like(logs).exponential_(generator=generator)
        actions = (logs - noise.log()).argmax(-1)
        return actions, _pick(logs, actions)

    def evaluate(self, out: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Log probabilities (B,) of given actions and the entropy (B,)."""
        logs, entropy, _ = self.rated(out, actions)
        return logs, entropy

    def rated(self, out: Tensor, actions: Tensor) -> Rated:
        """As ``evaluate``.

        By the logits log p(a) has the gradient 1[a] - p, and the entropy H has -p (log p + H).
        """
        logs = torch.log_softmax(out.float(), -1)
        probabilities, chosen = logs.exp(), actions.long().unsqueeze(-1)
        weighted = probabilities * logs
        entropy = -weighted.sum(-1)

        def gradients(by_log_probs: Tensor, by_entropy: Tensor) -> tuple[Tensor]:
            both = (by_log_probs + by_entropy * entropy).unsqueeze(-1)
            found = -(probabilities * both + weighted * by_entropy.unsqueeze(-1))
            return (found.scatter_add_(-1, chosen, by_log_probs.unsqueeze(-1)),)

        return Rated(logs.gather(-1, chosen).squeeze(-1), entropy, gradients)


class MultiCategorical(Head):
    """Independent choices; actions are int64 (B, *shape), log probabilities are summed."""

    def __init__(self, sizes: tuple[int, ...], shape: tuple[int, ...]) -> None:
        super().__init__()
        self.sizes, self.shape, self.width = list(sizes), shape, sum(sizes)
        self.parts = nn.ModuleList(Categorical(n) for n in sizes)

    def sample(
        self, out: Tensor, generator: torch.Generator | None = None, *, greedy: bool = False,
        given: Mapping[str, Tensor] = NONE_GIVEN,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """Draw actions int64 (B, *shape) and their summed log probabilities (B,)."""
        drawn = [
            cast("Categorical", part).sample(piece, generator, greedy=greedy)
            for part, piece in zip(self.parts, torch.split(out, self.sizes, -1), strict=True)
        ]
        actions = torch.stack([a for a, _ in drawn], -1).reshape(len(out), *self.shape)
        return actions, torch.stack([p for _, p in drawn]).sum(0)

    def evaluate(self, out: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Log probabilities (B,) of given actions and the entropy (B,)."""
        columns = actions.reshape(len(actions), -1).unbind(-1)
        rated = [
            cast("Categorical", part).evaluate(piece, column)
            for part, piece, column in zip(
                self.parts, torch.split(out, self.sizes, -1), columns, strict=True
            )
        ]
        return torch.stack([p for p, _ in rated]).sum(0), torch.stack([h for _, h in rated]).sum(0)


class DiagGaussian(Head):
    """Independent normals with a learned, state-independent deviation; float32 (B, *shape).

    Each row's noise has this ``correlation`` with that of the same row in the previous sample:
    noise that lasts explores further than noise that cancels itself out (Hollenstein et al. 2024,
    with pink noise). Each sample by itself is standard normal, and log probabilities are for it by
    itself.

    With ``units`` the normals are in units of the bounds, where only -1 ... 1 is allowed. Log
    probabilities and entropy are those of units, the same for all bounds, and a dimension that is
    fixed does not count in them.

    Raises:
        Refused: the correlation is negative, or 1 or more.
    """

    kept: ClassVar[tuple[str, ...]] = ("_last",)

    def __init__(
        self, shape: tuple[int, ...], correlation: float = 0.0, units: Bounds | None = None
    ) -> None:
        super().__init__()
        if not 0 <= correlation < 1:
            raise Refused([f"correlation={correlation}: use 0 to below 1"])
        self.shape, self.width, self.correlation = shape, math.prod(shape), correlation
        self.units = units
        self.log_std = nn.Parameter(torch.zeros(self.width))
        self._last: Tensor | None = None

    def sample(
        self, out: Tensor, generator: torch.Generator | None = None, *, greedy: bool = False,
        given: Mapping[str, Tensor] = NONE_GIVEN,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """As ``Head.sample``; actions are not clipped here."""
        mean = out.float()
        noise = torch.zeros_like(mean) if greedy else self._noise(mean, generator)
        log_std = given[LOG_STD][0] if LOG_STD in given else self.log_std
        unit = mean + log_std.exp() * noise
        logs = -0.5 * self._summed(noise.square()) - self._scale(log_std)
        actions = unit.reshape(len(out), *self.shape) if self.units is None else self.units(unit)
        return actions, logs

    def evaluate(self, out: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Log probabilities (B,) of given actions and the entropy (B,)."""
        logs, entropy, _ = self.rated(out, actions)
        return logs, entropy

    def rated(self, out: Tensor, actions: Tensor) -> Rated:
        """As ``evaluate``, of noise z and deviations s.

        log p has the gradient z/s by the mean and z² - 1 by log s, of which H has 1.
        """
        columns = actions.reshape(len(out), -1)
        unit = columns if self.units is None else self.units.unit(columns)
        narrow = (-self.log_std).exp()
        noise = (unit - out.float()) * narrow
        squares = noise.square()
        logs = -0.5 * self._summed(squares) - self._scale(self.log_std)
        entropy = self._scale(self.log_std) + 0.5 * self._free

        def gradients(by_log_probs: Tensor, by_entropy: Tensor) -> tuple[Tensor, Tensor]:
            by_mean = self._freed(noise * narrow) * by_log_probs.unsqueeze(-1)
            by_scale = by_log_probs @ squares + (by_entropy - by_log_probs).sum()
            return by_mean, self._freed(by_scale)

        return Rated(logs, entropy.expand(len(out)), gradients)

    def given(self, rows: int) -> dict[str, Tensor]:
        """The deviation."""
        return {LOG_STD: self.log_std.expand(rows, self.width)}

    def _noise(self, mean: Tensor, generator: torch.Generator | None) -> Tensor:
        noise = torch.empty_like(mean).normal_(generator=generator)
        if self.correlation:
            if self._last is not None and self._last.shape == noise.shape:
                noise = self.correlation * self._last + _fresh(self.correlation) * noise
            self._last = noise
        return noise

    @property
    def _free(self) -> int:
        return self.width if self.units is None else self.units.free_count

    def _summed(self, columns: Tensor) -> Tensor:
        """The sum over all dimensions that are free."""
        return self._freed(columns).sum(-1)

    def _freed(self, columns: Tensor) -> Tensor:
        return columns if self.units is None else self.units.freed(columns)

    def _scale(self, log_std: Tensor) -> Tensor:
        return self._summed(log_std) + 0.5 * LOG_2PI * self._free


def _fresh(correlation: float) -> float:
    """The weight of new noise that keeps the variance 1."""
    return math.sqrt(1 - correlation**2)


def head_for(actions: ActionSpec, correlation: float = 0.0) -> Head:
    """The usual distribution for an action space; ``correlation`` is that of continuous noise.

    Raises:
        Refused: nothing can be chosen between its bounds (``Bounds``).
    """
    if actions.kind == "discrete":
        return Categorical(actions.sizes[0])
    if actions.kind == "multidiscrete":
        return MultiCategorical(actions.sizes, actions.shape)
    bounded = None if are_own_units(actions) else Bounds(actions)
    return DiagGaussian(actions.shape, correlation, bounded)


def _pick(logs: Tensor, actions: Tensor) -> Tensor:
    return logs.gather(-1, actions.long().unsqueeze(-1)).squeeze(-1)


# -- NumPy twins -------------------------------------------------------------------------------


class Sampler(Protocol):
    """NumPy twin of a head for a fixed batch size B; the next call reuses the arrays returned."""

    def __call__(
        self, out: Floats, state: dict[str, Floats], *, greedy: bool = False
    ) -> tuple[NDArray[Any], Floats]:
        """Actions (B, *shape) and log probabilities (B,) for the last layer's output.

        ``out`` (B, width) may be overwritten; ``state`` holds the head's parameters by name.
        ``greedy`` takes the likeliest action, and draws no random numbers.
        """


def steps_ahead(batch: int, choices: int) -> int:
    """For how many steps noise is drawn at once: 1 to 256, with at most 1 MiB beyond the first.

    ``choices`` counts those of all sub-actions together.
    """
    return max(1, min(_MOST_AHEAD, _BYTES_AHEAD // (4 * max(1, batch * choices))))


class CategoricalSampler:
    """Twin of ``Categorical``; draws its noise for ``ahead`` steps at once."""

    kept: ClassVar[tuple[str, ...]] = ("_noise", "_next")

    def __init__(
        self, choices: int, batch: int, rng: np.random.Generator, ahead: int | None = None
    ) -> None:
        self._rng, self._next = rng, ahead or steps_ahead(batch, choices)
        self._noise = np.empty((self._next, batch, choices), np.float32)
        self._wide = np.empty((batch, choices), np.float32)
        self._logs = np.empty(batch, np.float32)
        self._ones = np.ones(choices, np.float32)
        self._rows = np.arange(batch)

    def __call__(
        self, out: Floats, state: dict[str, Floats], *, greedy: bool = False
    ) -> tuple[NDArray[np.int64], Floats]:
        """Actions (B,) int64, and log probabilities (B,) by ``log p(a) = -log Σ exp(l - l_a)``."""
        # No maximum is subtracted first: the winner of a Gumbel race is never so far behind
        # another choice that the exponential overflows.
        wide, logs = self._wide, self._logs
        actions = (out if greedy else np.add(out, self._gumbel(), out=wide)).argmax(1)
        chosen = out[self._rows, actions]
        np.subtract(out, chosen[:, None], out=wide)
        np.exp(wide, out=wide)
        np.dot(wide, self._ones, out=logs)
        np.log(logs, out=logs)
        np.negative(logs, out=logs)
        return actions, logs

    def renew(self, seed: int) -> None:
        """Forget what was drawn ahead: its generator begins anew."""
        del seed  # that has one of its own
        self._next = len(self._noise)

    def _gumbel(self) -> Floats:
        if self._next == len(self._noise):
            self._rng.standard_exponential(dtype=np.float32, out=self._noise)
            # A zero would win with infinite noise, and the sum of exponentials must stay finite.
            np.maximum(self._noise, np.float32(1e-20), out=self._noise)
            np.log(self._noise, out=self._noise)
            np.negative(self._noise, out=self._noise)
            self._next = 0
        row: Floats = self._noise[self._next]
        self._next += 1
        return row


class MultiCategoricalSampler:
    """Twin of ``MultiCategorical``."""

    def __init__(
        self, sizes: tuple[int, ...], shape: tuple[int, ...], batch: int, rng: np.random.Generator
    ) -> None:
        ahead = steps_ahead(batch, sum(sizes))
        self._parts = [CategoricalSampler(n, batch, rng, ahead) for n in sizes]
        ends = np.cumsum(sizes).tolist()
        self._slices = [slice(end - n, end) for end, n in zip(ends, sizes, strict=True)]
        self._actions = np.empty((batch, len(sizes)), np.int64)
        self._shaped = self._actions.reshape(batch, *shape)
        self._logs = np.empty(batch, np.float32)

    def snapshot(self) -> list[Any]:
        """What each part has drawn ahead."""
        return [taken(part) for part in self._parts]

    def go_on(self, found: list[Any]) -> None:
        """Go on with a ``snapshot``."""
        for part, drawn in zip(self._parts, found, strict=True):
            put_back(part, drawn)

    def __call__(
        self, out: Floats, state: dict[str, Floats], *, greedy: bool = False
    ) -> tuple[NDArray[np.int64], Floats]:
        """Actions (B, *shape) int64 and their summed log probabilities (B,)."""
        self._logs.fill(0)
        for i, (part, piece) in enumerate(zip(self._parts, self._slices, strict=True)):
            self._actions[:, i], logs = part(out[:, piece], state, greedy=greedy)
            self._logs += logs
        return self._shaped, self._logs


class GaussianSampler:
    """Twin of ``DiagGaussian``."""

    kept: ClassVar[tuple[str, ...]] = ("_noise",)

    def __init__(
        self,
        shape: tuple[int, ...],
        batch: int,
        rng: np.random.Generator,
        correlation: float = 0.0,
        units: tuple[Floats, Floats] | None = None,
    ) -> None:
        self._rng, self._shape, self._width = rng, shape, math.prod(shape)
        self._units, self._free = units, self._width
        if units is not None:
            self._free = int(np.count_nonzero(units[1]))
        self._keep, self._fresh = np.float32(correlation), np.float32(_fresh(correlation))
        self._zeros = np.zeros((batch, self._width), np.float32)
        self._noise: Floats | None = None

    def __call__(
        self, out: Floats, state: dict[str, Floats], *, greedy: bool = False
    ) -> tuple[Floats, Floats]:
        """Actions (B, *shape) float32, not clipped, and their log probabilities (B,)."""
        noise = self._zeros if greedy else self._draw()
        log_std = state["head.log_std"]
        out += np.exp(log_std) * noise
        if self._units is not None:
            middle, reach = self._units
            out *= reach
            out += middle
            if self._free < self._width:
                noise, log_std = noise * (reach > 0), log_std * (reach > 0)
        logs = np.einsum("bk,bk->b", noise, noise)
        logs *= -0.5
        logs -= np.float32(log_std.sum() + 0.5 * LOG_2PI * self._free)
        return out.reshape(len(out), *self._shape), logs

    def _draw(self) -> Floats:
        noise = self._rng.standard_normal(self._zeros.shape, np.float32)
        if self._keep and self._noise is not None:
            noise *= self._fresh
            noise += self._keep * self._noise
        self._noise = noise
        return noise


def sampler_for(
    actions: ActionSpec, batch: int, rng: np.random.Generator, correlation: float = 0.0
) -> Sampler:
    """The NumPy twin of ``head_for(actions, correlation)``."""
    if actions.kind == "discrete":
        return CategoricalSampler(actions.sizes[0], batch, rng)
    if actions.kind == "multidiscrete":
        return MultiCategoricalSampler(actions.sizes, actions.shape, batch, rng)
    units = None if are_own_units(actions) else units_of(actions)
    return GaussianSampler(actions.shape, batch, rng, correlation, units)
