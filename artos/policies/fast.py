"""Acts with policies that are bound to a flat parameter vector, without copying it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from artos.envs.spec import EnvSpec, Part
from artos.policies.acting import ActInfo, BoundPolicy
from artos.policies.actor_critic import ActorCritic
from artos.policies.distributions import LOG_STD, OUT, sampler_for
from artos.policies.encoders import BOUND, Normalizer
from artos.policies.flat import Floats, layout, named_tensors, views
from artos.policies.inputs import divisor, flat_width
from artos.policies.language_model import LanguageModel
from artos.policies.masks import FORBIDDEN
from artos.policies.text import TextModule, TextPolicy
from artos.policies.text_cache import TextCache
from artos.policies.twin_mlp import TwinMlp
from artos.specs.keys import MASK_KEY
from artos.system.snapshot import put_back, taken

Array = NDArray[Any]
_REMEMBERED = 64
_SIZES = 8
"""So many batch sizes have their scratch arrays kept."""


def make_actor(module: nn.Module, spec: EnvSpec, seed: int) -> BoundPolicy:
    """The fastest way to act with a module: a class of its own where there is one."""
    if type(module) is ActorCritic and isinstance(module.body, TwinMlp):
        return FastMlp(module, spec, seed)
    if type(module) is TextPolicy or type(module) is LanguageModel:
        return TextActor(module, seed)
    return TorchActor(module, seed)


class _Views:
    """Views of flat vectors, of slots remembered by address: binding one again is a look-up."""

    def __init__(self, module: nn.Module) -> None:
        self._layout = layout(module)
        self.names = {name for name, _ in self._layout}
        self._known: dict[int, dict[str, Floats]] = {}

    def of(self, flat: Floats) -> dict[str, Floats]:
        if flat.flags.owndata:  # another array each time, which would be kept
            return views(flat, self._layout)
        address = flat.__array_interface__["data"][0]
        found = self._known.get(address)
        if found is None:
            if len(self._known) == _REMEMBERED:
                self._known.clear()
            found = self._known[address] = views(flat, self._layout)
        return found


class FastMlp:
    """NumPy twin of an ``ActorCritic`` without images: a sixth of torch's cost for 4 environments.

    It gives the module's numbers within float32 rounding, with a random stream of its own from
    ``seed``. Binding copies the few parameters into the form that multiplies fastest, so ``flat``
    may be reused afterwards.
    """

    def __init__(self, module: ActorCritic, spec: EnvSpec, seed: int) -> None:
        assert isinstance(module.body, TwinMlp)
        self.spec, self._views = spec, _Views(module)
        self._rng = np.random.default_rng(seed)
        self._name, self._masked = spec.parts[0].name, bool(spec.masked)
        self._weights = _Weights(flat_width_of(spec), module)
        self._scaling = _Scaling(module.normalizer)
        self._state: dict[str, Floats] = {}
        self._passes: dict[int, _Pass] = {}

    def bind(self, flat: Floats) -> None:
        """Act with these parameters from now on."""
        self._weights.copy(self._views.of(flat))
        if self._scaling.known:
            self._scaling.copy(self._views.of(flat))
        if "head.log_std" in self._views.names:
            self._state = {"head.log_std": self._views.of(flat)["head.log_std"].copy()}
        for run in self._passes.values():
            run.refresh(self._weights)

    def act(self, obs: dict[str, Array], info: ActInfo) -> dict[str, Array]:
        """Actions, log probabilities and values; the arrays are valid until the next call."""
        run = self._forward(obs)
        actions, logs = run.sample(run.out, self._state, greedy=info.greedy)
        return {"actions": actions, "log_probs": logs, "values": run.values}

    def _forward(self, obs: dict[str, Array]) -> _Pass:
        run = self._pass_of(len(obs[self._name]))
        run.forward(self._weights, self._scaling, obs)
        if self._masked:
            np.copyto(run.out, FORBIDDEN, where=~obs[MASK_KEY])
        return run

    def answer(self, obs: dict[str, Array], info: ActInfo) -> dict[str, Array]:
        """As the module's ``answer``."""
        run = self._forward(obs)
        found: dict[str, Array] = {OUT: run.out, "values": run.values}
        for log_std in self._state.values():
            found[LOG_STD] = np.broadcast_to(log_std, run.out.shape)
        return found

    def draw(self, answer: dict[str, Array], info: ActInfo) -> dict[str, Array]:
        """As the module's ``draw``."""
        run = self._pass_of(len(answer[OUT]))
        if LOG_STD in answer:
            self._state = {"head.log_std": answer[LOG_STD][0]}
        np.copyto(run.out, answer[OUT])
        actions, logs = run.sample(run.out, self._state, greedy=info.greedy)
        return {"actions": actions, "log_probs": logs, "values": answer["values"]}

    def values(self, obs: dict[str, Array], info: ActInfo) -> Floats:
        """Values (B,); draws no random numbers, so its stream does not move."""
        run = self._pass_of(len(obs[self._name]))
        run.forward(self._weights, self._scaling, obs)
        return run.values

    def snapshot(self) -> dict[str, Any]:
        """Its random stream, and what was drawn ahead."""
        return {"rng": self._rng, "drawn": {n: taken(p.sample) for n, p in self._passes.items()}}

    def go_on(self, found: dict[str, Any]) -> None:
        """Go on with the random stream of a ``snapshot``."""
        self._rng.bit_generator.state = found["rng"].bit_generator.state
        for batch, drawn in found["drawn"].items():
            put_back(self._pass_of(batch).sample, drawn)

    def _pass_of(self, batch: int) -> _Pass:
        if (known := self._passes.get(batch)) is not None:
            return known
        if len(self._passes) == _SIZES:  # the largest one acts, and goes on with what it drew
            largest = max(self._passes)
            del self._passes[next(size for size in self._passes if size < largest)]
        run = self._passes[batch] = _Pass(self.spec, self._weights, batch, self._rng)
        return run


class _Weights:
    """Both networks side by side: (in + 1, 2h), then (2, h, h') each, then one head for both.

    The first layer's bias is an additional row, multiplied by a constant 1 in the input. The head
    is (2h, width + 1): policy rows above, value rows below, zeros elsewhere.
    """

    def __init__(self, width: int, module: ActorCritic) -> None:
        assert isinstance(module.body, TwinMlp)
        self.sides = module.body.sides[1:]
        self.first = np.empty((width + 1, 2 * self.sides[0]), np.float32) if self.sides else None
        self.inner = [np.empty((2, *pair), np.float32) for pair in pairwise(self.sides)]
        self.biases = [np.empty(2 * outside, np.float32) for outside in self.sides[1:]]
        self.out = module.head.width
        self.correlation = getattr(module.head, "correlation", 0.0)
        self.head = np.zeros(
            (2 * self.sides[-1] if self.sides else width + 1, self.out + 1), np.float32
        )
        self.head_bias = np.empty(self.out + 1, np.float32)

    def copy(self, state: dict[str, Floats]) -> None:
        """Copy new parameters."""
        if self.first is not None:
            half = self.sides[0]
            weight, bias = state["body.weight0"], state["body.bias0"]
            self.first[:-1, :half], self.first[:-1, half:] = weight
            self.first[-1] = bias.reshape(-1)
        for i, (weight, bias) in enumerate(zip(self.inner, self.biases, strict=True), 1):
            weight[...] = state[f"body.weight{i}"]
            bias[...] = state[f"body.bias{i}"].reshape(-1)
        width = len(state["policy_weight"])
        self.head[:width, :-1] = state["policy_weight"]
        self.head[-width if self.first is not None else 0 :, -1][:width] = state["value_weight"]
        self.head_bias[:-1], self.head_bias[-1:] = state["policy_bias"], state["value_bias"]


class _Scaling:
    """Twin of ``Normalizer``, if the policy has one."""

    def __init__(self, normalizer: Normalizer | None) -> None:
        self.known = normalizer is not None
        real = np.zeros(0, bool) if normalizer is None else normalizer.real.numpy()
        self._bound = np.where(real, BOUND, np.inf).astype(np.float32)
        self._mean, self._factor = np.zeros((2, len(real)), np.float32)

    def copy(self, state: dict[str, Floats]) -> None:
        """Copy new statistics."""
        self._mean[...] = state["normalizer.mean"]
        np.divide(1, np.sqrt(state["normalizer.var"] + np.float32(1e-8)), out=self._factor)

    def apply(self, x: Floats) -> None:
        """Scale ``x`` (B, width) in place."""
        np.subtract(x, self._mean, out=x)
        np.multiply(x, self._factor, out=x)
        np.clip(x, -self._bound, self._bound, out=x)


class _Pass:
    """Scratch arrays and noise for one batch size."""

    def __init__(
        self, spec: EnvSpec, weights: _Weights, batch: int, rng: np.random.Generator
    ) -> None:
        self._x = np.ones((batch, flat_width_of(spec) + 1), np.float32)
        self._fills = _fills(spec.features, self._x)
        self._hidden = [np.empty((batch, 2 * side), np.float32) for side in weights.sides]
        # (B, 2h) seen as (2, B, h): policy and value apart.
        self._pairs = [h.reshape(batch, 2, -1).transpose(1, 0, 2) for h in self._hidden]
        self._biases = [np.empty_like(h) for h in self._hidden[1:]]
        self._joint = np.empty((batch, weights.out + 1), np.float32)
        self._joint_bias = np.empty_like(self._joint)
        self.out, self.values = self._joint[:, :-1], self._joint[:, -1]
        self.sample = sampler_for(spec.actions, batch, rng, weights.correlation)
        self.refresh(weights)

    def refresh(self, weights: _Weights) -> None:
        """Spread new biases over the batch: adding equal shapes takes a third of broadcasting."""
        for spread, bias in zip(self._biases, weights.biases, strict=True):
            spread[...] = bias
        self._joint_bias[...] = weights.head_bias

    def forward(self, weights: _Weights, scaling: _Scaling, obs: dict[str, Array]) -> None:
        """Fill ``out`` (B, width) and ``values`` (B,)."""
        for name, fill in self._fills:
            fill(obs[name])
        if scaling.known:
            scaling.apply(self._x[:, :-1])
        last = self._x
        if weights.first is not None:
            last = np.dot(last, weights.first, out=self._hidden[0])
            np.tanh(last, out=last)
        for i, weight in enumerate(weights.inner):
            np.matmul(self._pairs[i], weight, out=self._pairs[i + 1])
            last = self._hidden[i + 1]
            np.add(last, self._biases[i], out=last)
            np.tanh(last, out=last)
        np.dot(last, weights.head, out=self._joint)
        np.add(self._joint, self._joint_bias, out=self._joint)


class _Copy:
    """Copies a numeric part into its columns, bytes scaled to 0 … 1."""

    def __init__(self, part: Part, target: Floats) -> None:
        self._target = target
        self._shape = (len(target), target.shape[1])
        self._flat = len(part.value_shape) == 1
        self._scale = None if divisor(part) == 1 else np.float32(divisor(part))

    def __call__(self, value: Array) -> None:
        self._target[...] = value if self._flat else value.reshape(self._shape)
        if self._scale is not None:
            self._target /= self._scale


class _OneHot:
    """Writes categories as one-hot columns."""

    def __init__(self, part: Part, target: Floats) -> None:
        self._target, self._rows = target, np.arange(len(target))[:, None]
        self._first = np.cumsum((0, *part.sizes[:-1]))

    def __call__(self, value: Array) -> None:
        self._target.fill(0)
        self._target[self._rows, self._first + value.reshape(len(self._rows), -1)] = 1


def _fills(parts: tuple[Part, ...], x: Floats) -> list[tuple[str, _Copy | _OneHot]]:
    found: list[tuple[str, _Copy | _OneHot]] = []
    at = 0
    for part in parts:
        target = x[:, at : at + flat_width(part)]
        found.append((part.name, _OneHot(part, target) if part.sizes else _Copy(part, target)))
        at += flat_width(part)
    return found


def flat_width_of(spec: EnvSpec) -> int:
    """How many features all parts that a policy looks at have when they are flattened."""
    return sum(flat_width(part) for part in spec.features)


class TorchActor:
    """Acts with any module: its tensors become views of the bound vector.

    Sampling uses a random stream of its own: the built-in policy through its ``generator``, any
    other module through torch's global state, which is restored after every call.
    """

    def __init__(self, module: nn.Module, seed: int) -> None:
        self.module, self._views = module.eval(), _Views(module)
        self._tensors = named_tensors(module)
        self._own = isinstance(module, ActorCritic)
        generator = torch.Generator().manual_seed(seed)
        self._state = generator.get_state()
        if isinstance(module, ActorCritic):
            module.generator = generator

    def bind(self, flat: Floats) -> None:
        """Act with these parameters from now on. Memory that cannot be written is copied."""
        for name, view in self._views.of(flat if flat.flags.writeable else flat.copy()).items():
            self._tensors[name].data = torch.from_numpy(view)

    def snapshot(self) -> dict[str, Any]:
        """The states of its random streams, and what parts of the module keep from call to call."""
        generator: Any = getattr(self.module, "generator", None)
        own = None if generator is None else generator.get_state().numpy()
        parts = {
            name: taken(each)
            for name, each in self.module.named_modules()
            if hasattr(each, "kept") or hasattr(each, "snapshot")
        }
        return {"stream": self._state.numpy(), "generator": own, "parts": parts}

    def go_on(self, found: dict[str, Any]) -> None:
        """Go on with the random streams of a ``snapshot``, and with what parts kept."""
        self._state = torch.from_numpy(found["stream"])
        if found["generator"] is not None:
            generator: Any = self.module.generator
            generator.set_state(torch.from_numpy(found["generator"]))
        for name, held in found["parts"].items():
            put_back(self.module.get_submodule(name), held)

    def renew(self, seed: int) -> None:
        """Go on with a random stream of this ``seed``."""
        self._state = torch.Generator().manual_seed(seed).get_state()

    @torch.inference_mode()
    def act(self, obs: dict[str, Array], info: ActInfo) -> dict[str, Array]:
        """What the module's ``act`` returns, as arrays."""
        act: Any = self.module.act
        acts = act if self._own else partial(self._in_own_stream, act)
        found: Any = acts(_tensors(obs), _with_tensors(info))
        return {name: value.numpy() for name, value in found.items()}

    def _in_own_stream(
        self, method: Callable[..., Any], given: dict[str, torch.Tensor], info: ActInfo
    ) -> Any:
        outside = torch.get_rng_state()
        torch.set_rng_state(self._state)
        try:
            return method(given, info)
        finally:
            self._state = torch.get_rng_state()
            torch.set_rng_state(outside)

    @torch.inference_mode()
    def answer(self, obs: dict[str, Array], info: ActInfo) -> dict[str, Array]:
        """What the module's ``answer`` returns, as arrays."""
        found: Any = self.module.answer(_tensors(obs), _with_tensors(info))  # type: ignore[operator]
        return {name: value.numpy() for name, value in found.items()}

    @torch.inference_mode()
    def draw(self, answer: dict[str, Array], info: ActInfo) -> dict[str, Array]:
        """What the module's ``draw`` returns, as arrays."""
        draw: Any = self.module.draw
        drawn = draw if self._own else partial(self._in_own_stream, draw)
        found: Any = drawn(_tensors(answer), info)
        return {name: value.numpy() for name, value in found.items()}

    @torch.inference_mode()
    def values(self, obs: dict[str, Array], info: ActInfo) -> Floats:
        """Values (B, *shape) float32; a module without ``value`` is asked to act."""
        if not hasattr(self.module, "value"):
            return self.act(obs, info)["values"]
        state = (_with_tensors(info).state,) if info.state else ()
        found: torch.Tensor = self.module.value(_tensors(obs), *state)  # type: ignore[operator]
        return found.float().numpy()


class TextActor(TorchActor):
    """Acts with a ``TextModule`` that reads each token of a text once for each version."""

    def __init__(self, module: TextModule, seed: int) -> None:
        super().__init__(module, seed)
        self._cache = module.cache = TextCache(*module.sizes)

    def bind(self, flat: Floats) -> None:
        """Act with these parameters from now on, and forget what was read with others."""
        super().bind(flat)
        self._cache.forget()


def _tensors(arrays: Mapping[str, Array]) -> dict[str, torch.Tensor]:
    """Views where PyTorch accepts them, else copies: it refuses read-only and reversed arrays."""
    return {
        name: torch.from_numpy(array if array.flags.carray else array.copy("C"))
        for name, array in arrays.items()
    }


def _with_tensors(info: ActInfo) -> ActInfo:
    return replace(info, state=_tensors(info.state)) if info.state else info
