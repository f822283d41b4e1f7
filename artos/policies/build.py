"""Choosing a policy for an environment, and checking that it fits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn

from artos.envs.spec import ActionSpec, EnvSpec
from artos.errors import Refused
from artos.policies.acting import ACTOR_CRITIC, VALUES, ActInfo, Declared, Seen, blank
from artos.policies.actor_critic import ActorCritic
from artos.policies.encoders import Encoder, normalizers
from artos.policies.inputs import can_be_scaled, doubt, picture, words
from artos.policies.twin_mlp import TwinMlp
from artos.specs.bound import Bound
from artos.specs.keys import DataKey

_BATCH = 3
_MOST_UNITS = 2**16
_CRITIC = Declared()


@dataclass(frozen=True)
class Policy:
    """The built-in actor-critic."""

    outputs: ClassVar[tuple[str | DataKey, ...]] = ACTOR_CRITIC
    kind: Literal["auto", "mlp", "cnn"] = "auto"
    """``auto`` takes the CNN if the environment shows pictures."""
    hidden: tuple[int, ...] = (64, 64)
    normalize: bool = False
    """Scales observations, except pictures and categories, by running statistics."""
    correlation: float = 0.0
    """Of the noise in continuous actions from step to step, 0 to below 1."""
    apart: bool = False
    """Has the value see pictures through a CNN of its own."""

    def build(self, spec: EnvSpec, seed: int) -> ActorCritic:
        """A freshly initialised module; the same seed gives the same weights everywhere.

        Raises:
            Refused: the kind does not fit the observations, or a hidden layer has no units.
        """
        pictures = any(picture(part) for part in spec.features)
        faults = []
        if self.kind not in ("auto", "mlp", "cnn"):
            faults.append(f"policy kind {self.kind!r}: use auto, mlp or cnn")
        if self.kind == "cnn" and not pictures:
            faults.append(f"policy kind 'cnn': {spec.name} shows no picture; use mlp or auto")
        if self.normalize and not can_be_scaled(spec, cnn=self.kind != "mlp"):
            faults.append(
                f"policy normalize=True: {spec.name} shows no numbers to scale; leave it out"
            )
        if any(not 0 < units <= _MOST_UNITS for units in self.hidden):
            faults.append(f"policy hidden={self.hidden}: each layer has 1 to {_MOST_UNITS} units")
        if faults:
            raise Refused(faults)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            cnn = self.kind != "mlp" and pictures
            return ActorCritic(
                spec, self.hidden, cnn=cnn, normalize=self.normalize, correlation=self.correlation,
                apart=self.apart,
            )  # fmt: skip


PolicyLike = Policy | Callable[[EnvSpec], nn.Module]


def build_policy(policy: PolicyLike, spec: EnvSpec, seed: int) -> nn.Module:
    """Build the built-in policy, or the user's own: any callable ``EnvSpec → nn.Module``."""
    if isinstance(policy, Policy):
        return policy.build(spec, seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return policy(spec)


def seen(module: Any, spec: EnvSpec) -> Seen:
    """Which network each part of an observation goes through."""
    modules = module.modules() if isinstance(module, nn.Module) else ()
    ours = [each for each in modules if isinstance(each, Encoder | TwinMlp)]
    if not ours:
        return Seen()
    cnn, scaled = isinstance(ours[0], Encoder), bool(normalizers(module))
    doubts = [doubt(part, cnn=cnn, scaled=scaled) for part in spec.features]
    return Seen(
        tuple((part.name, words(part, cnn=cnn, scaled=scaled)) for part in spec.features),
        tuple(each for each in doubts if each),
    )


def fake_observations(spec: EnvSpec, batch: int) -> dict[str, Tensor]:
    """Zeros (or the lower bound) of the right shapes and dtypes, by data key; nothing is masked."""
    return {name: torch.from_numpy(value) for name, value in blank(spec, batch).items()}


def check_policy(
    module: Any, spec: EnvSpec, declared: Declared = _CRITIC, bound: Bound | None = None
) -> list[str]:
    """Act, and evaluate if it can, on a fake batch; returns what does not fit and what to change.

    ``declared`` is what ``act`` must return besides ``actions``, ``bound`` what it may read.
    """
    if not isinstance(module, nn.Module):
        return [f"the policy is a {type(module).__name__}; it must be a torch.nn.Module"]
    if not callable(getattr(module, "act", None)):
        return [f"{type(module).__name__} has no method act(obs, info)"]
    obs = fake_observations(spec, _BATCH)
    state = {
        key.name: torch.from_numpy(np.zeros((_BATCH, *key.shape), key.dtype))
        for key in declared.state
    }
    try:
        with torch.no_grad():
            acted = module.act(obs, ActInfo(state=state, bound=bound or Bound()))  # type: ignore[operator]
    except Exception as error:
        has = ", ".join(f"{name} {tuple(each.shape)} {each.dtype}" for name, each in obs.items())
        return [f"act(obs, info) raised {type(error).__name__}: {error}; obs has {has}"]
    if not isinstance(acted, dict):
        return [f"act(obs, info) must return a dict of tensors, not {type(acted).__name__}"]
    actions = DataKey("actions", spec.actions.shape, spec.actions.stored_dtype)
    wanted = (actions, *declared.outputs, *declared.state)
    faults = [fault for key in wanted for fault in _output_faults(acted, key)]
    faults = faults or _action_faults(acted, spec.actions)
    if faults or state or not callable(getattr(module, "evaluate", None)):
        return faults
    heads = next((key.shape for key in declared.outputs if key.name == VALUES), ())
    return _evaluate_faults(module, obs, acted["actions"], heads)


def _output_faults(acted: dict[str, Any], key: DataKey) -> Iterator[str]:
    value, shape = acted.get(key.name), (_BATCH, *key.shape)
    what = f"act(obs, info)[{key.name!r}]"
    if not isinstance(value, Tensor):
        fault = f"act(obs, info) must return a tensor under {key.name!r}"
        declared = ", or leave it out of the policy's outputs (outputs = () for none)"
        yield fault + declared * (key.name != "actions")
    elif tuple(value.shape) != shape:
        yield f"{what} has shape {tuple(value.shape)}; return {shape}"
    elif str(value.dtype) != f"torch.{key.dtype}":
        yield f"{what} is {value.dtype}; return torch.{key.dtype}"


def _action_faults(acted: dict[str, Tensor], actions: ActionSpec) -> list[str]:
    value = acted["actions"]
    if actions.kind == "box":
        finite = bool(value.isfinite().all())
        return [] if finite else ["act(obs, info)['actions'] holds NaN or infinity"]
    columns = value.reshape(_BATCH, math.prod(actions.shape))
    sizes = torch.tensor(actions.sizes)
    if bool(((columns < 0) | (columns >= sizes)).any()):
        return [
            f"act(obs, info)['actions'] goes from {int(value.min())} to {int(value.max())}; the "
            f"environment takes 0 to {[n - 1 for n in actions.sizes]}"
        ]
    return []


def _evaluate_faults(
    module: Any, obs: dict[str, Tensor], actions: Tensor, heads: tuple[int, ...]
) -> list[str]:
    try:
        found = module.evaluate(obs, actions)
    except Exception as error:
        return [f"evaluate(obs, actions) raised {type(error).__name__}: {error}"]
    names = ("log_probs", "entropy", VALUES)
    if not isinstance(found, tuple) or len(found) != len(names):
        return [f"evaluate(obs, actions) must return a tuple ({', '.join(names)})"]
    return [
        f"evaluate(obs, actions): {name} has shape {tuple(value.shape)}; return {shape}"
        for name, value in zip(names, found, strict=True)
        if tuple(value.shape) != (shape := (_BATCH, *(heads if name == VALUES else ())))
    ]
