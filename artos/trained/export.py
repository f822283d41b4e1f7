"""A policy as a program that needs no ARTOS: observations in, greedy actions out."""

from __future__ import annotations

import importlib.util
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from artos.envs.spec import ActionSpec, EnvSpec
from artos.errors import Refused
from artos.policies.acting import ActInfo
from artos.policies.build import fake_observations
from artos.specs.bound import Bound
from artos.specs.keys import OBSERVATIONS, DataKey

_BATCH = 3
"""Any size but 0 and 1, which torch.export treats as constants."""


class GreedyPolicy(nn.Module):
    """Greedy actions (B, *shape), as the environment takes them, for a batch of observations.

    Observations are one tensor (B, *shape), or for a Dict space a dict of tensors by dotted names;
    where ``info`` masks actions, a dict of ``observations`` and ``action_mask``. Categories are the
    environment's own numbers.
    """

    def __init__(self, module: nn.Module, spec: EnvSpec, bound: Bound) -> None:
        super().__init__()
        self.module, self._spec = module, spec
        self._version, self._versions = bound.version, {**bound.versions}
        # As tensors, which torch keeps in the program; arrays it would take as arguments.
        self._bare = not spec.dict_observations
        self._objects = {name: torch.from_numpy(each) for name, each in bound.objects.items()}
        self._starts = {
            part.name: torch.tensor(part.start).reshape(part.shape)
            for part in spec.parts
            if part.start
        }
        actions = spec.actions  # the layers do what ``action_writer`` does
        self._to_env = _Clipped(actions) if actions.kind == "box" else _Shifted(actions)

    def forward(
        self, observations: Tensor | dict[str, Tensor], state: dict[str, Tensor] | None = None
    ) -> Tensor | tuple[Tensor, dict[str, Tensor]]:
        """Greedy actions; with ``state`` also the new state, {name: (B, *shape)}."""
        if isinstance(observations, dict):
            obs = {
                name if name == OBSERVATIONS and self._bare else f"{OBSERVATIONS}.{name}": part
                for name, part in observations.items()
            }
        else:
            obs = {OBSERVATIONS: observations}
        obs = obs | {name: obs[name] - start for name, start in self._starts.items()}
        objects: Any = self._objects
        bound = Bound(self._version, None, objects, self._versions)
        info = ActInfo(greedy=True, state=state or {}, bound=bound)
        acted = self.module.act(obs, info)  # type: ignore[operator]
        actions: Tensor = self._to_env(acted["actions"]).detach()
        if state is None:
            return actions
        return actions, {name: acted[name].detach() for name in state}


class _Shifted(nn.Module):
    """Actions that are stored from 0 on, as the environment numbers them, in its own dtype."""

    def __init__(self, spec: ActionSpec) -> None:
        super().__init__()
        start = torch.tensor(spec.start or (0,)).reshape(spec.shape if spec.start else ())
        self.register_buffer("start", start, persistent=False)
        self.start: Tensor
        self._dtype = _dtype_of(spec)

    def forward(self, actions: Tensor) -> Tensor:
        return (actions + self.start).to(self._dtype)


class _Clipped(nn.Module):
    """Actions within bounds, in the environment's own dtype."""

    def __init__(self, spec: ActionSpec) -> None:
        super().__init__()
        # In float32 a float64 bound may be another number, outside of what is allowed.
        dtype = _dtype_of(spec)
        wide = torch.promote_types(dtype, torch.float32)
        for name, bounds, without in (
            ("low", spec.low, -torch.inf),
            ("high", spec.high, torch.inf),
        ):
            known = [without if bound is None else bound for bound in bounds]
            limits = torch.tensor(known, dtype=wide).reshape(spec.shape)
            self.register_buffer(name, limits, persistent=False)
        self.low: Tensor
        self.high: Tensor
        self._dtype, self._wide = dtype, wide

    def forward(self, actions: Tensor) -> Tensor:
        inside = torch.minimum(torch.maximum(actions.to(self._wide), self.low), self.high)
        return inside.to(self._dtype)


def _dtype_of(spec: ActionSpec) -> torch.dtype:
    return torch.from_numpy(np.empty(0, spec.dtype)).dtype


def export(
    module: nn.Module,
    spec: EnvSpec,
    path: Path,
    memory: Sequence[DataKey] = (),
    bound: Bound | None = None,
) -> None:
    """Write ``module`` as a program for batches of any size (``Trained.export``).

    ``memory`` is the policy's recurrent state, ``bound`` what it reads, which stays as it is.

    Raises:
        Refused: the ending of ``path`` is unknown, a package is missing, or the module cannot be
            exported; the reason is torch's.
    """
    write = _FORMATS.get(path.suffix)
    if write is None:
        raise Refused([f"{path.name}: name a file that ends in {' or '.join(_FORMATS)}"])
    if not path.parent.is_dir():
        raise Refused([f"{path}: there is no folder {path.parent}"])
    packages = ("onnx", "onnxscript") if path.suffix == ".onnx" else ()
    if lacking := [name for name in packages if importlib.util.find_spec(name) is None]:
        raise Refused([f"ONNX needs {' and '.join(lacking)}: pip install 'artos[onnx]'"])
    # torch traces the module with a batch of observations, and of state if there is any.
    obs: Any = fake_observations(spec, _BATCH)
    if spec.dict_observations or spec.masked:
        obs = {name.removeprefix(f"{OBSERVATIONS}."): part for name, part in obs.items()}
    else:
        obs = obs[OBSERVATIONS]
    state = {
        key.name: torch.from_numpy(np.zeros((_BATCH, *key.shape), key.dtype)) for key in memory
    }
    example = (obs, state) if state else (obs,)
    program = _program(GreedyPolicy(module.eval(), spec, bound or Bound()), example)
    with _quietly():
        write(program, path)


class Program(NamedTuple):
    """An exported program, and the names of its inputs and outputs."""

    exported: torch.export.ExportedProgram
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def _program(policy: GreedyPolicy, inputs: tuple[Any, ...]) -> Program:
    any_size = {0: torch.export.Dim("batch", min=1)}
    sizes = tuple(dict.fromkeys(e, any_size) if isinstance(e, dict) else any_size for e in inputs)
    try:
        with _quietly(), torch.no_grad():
            made = torch.export.export(policy, inputs, dynamic_shapes=sizes, strict=True)
    except Exception as error:
        who = type(policy.module).__name__
        raise Refused([f"{who} cannot be exported: {type(error).__name__}: {error}"]) from error
    obs, *state = [tuple(e) if isinstance(e, dict) else (OBSERVATIONS,) for e in inputs]
    names = [name for each in state for name in each]
    return Program(made, (*obs, *names), ("actions", *(f"next.{name}" for name in names)))


def _write_onnx(program: Program, path: Path) -> None:
    torch.onnx.export(
        program.exported,
        f=path,
        dynamo=True,
        verbose=False,
        external_data=False,
        input_names=program.inputs,
        output_names=program.outputs,
    )


_FORMATS: dict[str, Callable[[Program, Path], None]] = {
    ".pt2": lambda program, path: torch.export.save(program.exported, path),
    ".onnx": _write_onnx,
}


@contextmanager
def _quietly() -> Iterator[None]:
    """Hide what torch's exporters warn and log about themselves: users can do nothing about it."""
    levels = {log: log.level for log in map(logging.getLogger, ("torch.onnx", "onnxscript"))}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for log in levels:
            log.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for log, level in levels.items():
                log.setLevel(level)
