"""A policy as a program that needs no ARTOS: observations in, greedy actions out."""

from __future__ import annotations

import importlib.util
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from artos.envs.spec import ActionSpec, EnvSpec
from artos.errors import Refused
from artos.policies.acting import ActInfo
from artos.policies.build import fake_observations
from artos.spec import OBSERVATIONS

_BATCH = 3
"""Any size but 0 and 1, which torch.export takes for constants."""


class GreedyPolicy(nn.Module):
    """Greedy actions (B, *shape), as the environment takes them, for a batch of observations.

    Observations are one tensor (B, *shape), or for a Dict space a dict of tensors by dotted names.
    """

    def __init__(self, module: nn.Module, spec: EnvSpec) -> None:
        super().__init__()
        self.module, self._spec = module, spec
        self._to_env = _action_layer(spec.actions)

    def forward(self, observations: Tensor | dict[str, Tensor]) -> Tensor:
        """See the class."""
        if isinstance(observations, dict):
            obs = {f"{OBSERVATIONS}.{name}": part for name, part in observations.items()}
        else:
            obs = {OBSERVATIONS: observations}
        acted = self.module.act(obs, ActInfo(greedy=True))  # type: ignore[operator]
        actions: Tensor = self._to_env(acted["actions"])
        return actions.detach()


class _Shifted(nn.Module):
    """The environment's own numbers of actions that are stored from 0 on."""

    def __init__(self, spec: ActionSpec) -> None:
        super().__init__()
        start = torch.tensor(spec.start or (0,)).reshape(spec.shape if spec.start else ())
        self.register_buffer("start", start, persistent=False)
        self.start: Tensor

    def forward(self, actions: Tensor) -> Tensor:
        return actions + self.start


class _Clipped(nn.Module):
    """Actions within bounds, in the environment's own dtype."""

    def __init__(self, spec: ActionSpec) -> None:
        super().__init__()
        for name, bounds, without in (
            ("low", spec.low, -torch.inf),
            ("high", spec.high, torch.inf),
        ):
            known = [without if bound is None else bound for bound in bounds]
            self.register_buffer(name, torch.tensor(known).reshape(spec.shape), persistent=False)
        self.low: Tensor
        self.high: Tensor
        self._dtype = torch.from_numpy(np.empty(0, spec.dtype)).dtype

    def forward(self, actions: Tensor) -> Tensor:
        return torch.minimum(torch.maximum(actions, self.low), self.high).to(self._dtype)


def _action_layer(spec: ActionSpec) -> nn.Module:
    """What ``action_writer`` does, as a layer."""
    return _Clipped(spec) if spec.kind == "box" else _Shifted(spec)


def export(module: nn.Module, spec: EnvSpec, path: Path) -> None:
    """Write ``module`` as a program with any size of batch; see ``Trained.export``.

    Raises:
        Refused: the ending of ``path`` is unknown, a package is missing, or the module cannot be
            exported; the reason is torch's.
    """
    write = _FORMATS.get(path.suffix)
    if write is None:
        raise Refused([f"{path.name}: name a file that ends in {' or '.join(_FORMATS)}"])
    if not path.parent.is_dir():
        raise Refused([f"{path}: there is no folder {path.parent}"])
    if path.suffix == ".onnx":
        _check_onnx()
    example = _example(spec)
    names = [*example] if isinstance(example, dict) else [OBSERVATIONS]
    write(_program(GreedyPolicy(module.eval(), spec), example), names, path)


def _example(spec: EnvSpec) -> Any:
    """A batch of observations of the right shapes and dtypes."""
    parts = fake_observations(spec, _BATCH)
    if not spec.dict_observations:
        return parts[OBSERVATIONS]
    return {name.removeprefix(f"{OBSERVATIONS}."): part for name, part in parts.items()}


def _program(policy: GreedyPolicy, example: Any) -> torch.export.ExportedProgram:
    any_size = {0: torch.export.Dim("batch", min=1)}
    sizes = dict.fromkeys(example, any_size) if isinstance(example, dict) else any_size
    try:
        with _quietly(), torch.no_grad():
            return torch.export.export(
                policy, (example,), dynamic_shapes={"observations": sizes}, strict=True
            )
    except Exception as error:
        who = type(policy.module).__name__
        raise Refused([f"{who} cannot be exported: {type(error).__name__}: {error}"]) from error


def _write_pt2(program: torch.export.ExportedProgram, names: Sequence[str], path: Path) -> None:
    del names  # it takes a tensor, or a dict that has them
    with _quietly():
        torch.export.save(program, path)


def _check_onnx() -> None:
    lacking = [name for name in ("onnx", "onnxscript") if importlib.util.find_spec(name) is None]
    if lacking:
        raise Refused([f"ONNX needs {' and '.join(lacking)}: pip install 'artos[onnx]'"])


def _write_onnx(program: torch.export.ExportedProgram, names: Sequence[str], path: Path) -> None:
    with _quietly():
        torch.onnx.export(
            program,
            f=path,
            dynamo=True,
            verbose=False,
            external_data=False,
            input_names=names,
            output_names=["actions"],
        )


_FORMATS: dict[str, Callable[[torch.export.ExportedProgram, Sequence[str], Path], None]] = {
    ".pt2": _write_pt2,
    ".onnx": _write_onnx,
}


@contextmanager
def _quietly() -> Iterator[None]:
    """Torch's exporters warn and log about themselves, which is of no use to those who export."""
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
