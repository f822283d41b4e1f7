"""A device that is none: tensors "there" are as strict about the host's as those of a GPU.

Under ``FarDevice`` the device ``FAR`` can be named wherever torch takes a device. What is made or
copied there lies in the host's memory, and is known by its storage. As with CUDA, an operation
on tensors of both sides raises, except for copies and for single numbers of the host, and a tensor
there has no NumPy view. Unlike CUDA, indices must be on the same side, too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

FAR = "privateuseone"
_HERE = torch.device("cpu")


class _Module:
    """What torch asks of a module for a device type."""

    @staticmethod
    def _is_in_bad_fork() -> bool:
        return False

    @staticmethod
    def manual_seed_all(seed: int) -> None:
        """Nothing: random numbers there are the host's."""

    @staticmethod
    def get_amp_supported_dtype() -> list[torch.dtype]:
        return [torch.bfloat16]


class Mixed(RuntimeError):
    """Host and device met in one operation."""


class _Storages:
    """Those that are far; they are kept alive, so that their addresses are not used again."""

    def __init__(self) -> None:
        self._kept: dict[int, Any] = {}
        self.operations = 0

    def add(self, found: Any) -> None:
        for tensor in _tensors(found):
            storage = tensor.untyped_storage()
            self._kept[storage._cdata] = storage

    def __contains__(self, tensor: Tensor) -> bool:
        return tensor.untyped_storage()._cdata in self._kept


class _Dispatch(TorchDispatchMode):
    """Sees every operation, also those of autograd."""

    def __init__(self, far: _Storages) -> None:
        super().__init__()
        self._far = far

    def __torch_dispatch__(
        self, op: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given = _tensors((args, kwargs))
        there = any(tensor in self._far for tensor in given)
        name = op.overloadpacket.__name__
        if there and name != "copy_":
            self._check(name, given)
        found = op(*args, **(kwargs or {}))
        if there and name != "copy_":
            self._far.add(found)
        self._far.operations += there
        return found

    def _check(self, name: str, given: Iterable[Tensor]) -> None:
        numbers = not name.startswith("_fused")
        here = [t for t in given if t not in self._far and not (numbers and t.dim() == 0)]
        if here:
            shapes = ", ".join(str(tuple(t.shape)) for t in here)
            raise Mixed(f"{name}: tensors of the host {shapes} beside tensors of the device")


class _Functions(TorchFunctionMode):
    """Sees what is no operation for a dispatcher: where a tensor is, and its views as arrays."""

    def __init__(self, far: _Storages) -> None:
        super().__init__()
        self._far = far

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs, name = dict(kwargs or {}), getattr(function, "__name__", "")
        first = args[0] if args and isinstance(args[0], Tensor) else None
        if first is not None and name in ("to", "cpu"):
            return self._moved(function, first, args[1:], kwargs)
        if first is not None and first in self._far:
            if function == Tensor.device.__get__:  # type: ignore[attr-defined]
                return torch.device(FAR, 0)
            if name in ("numpy", "__array__"):
                raise TypeError("can't convert device tensor to numpy: copy it to the host first")
        wanted = kwargs.get("device")
        if wanted is None or torch.device(wanted).type != FAR:
            return function(*args, **kwargs)
        made = function(*args, **{**kwargs, "device": _HERE})
        self._far.add(made)
        return made

    def _moved(self, function: Any, tensor: Tensor, rest: Any, kwargs: Any) -> Any:
        wanted = kwargs.get("device", rest[0] if rest else "cpu" if _is(function, "cpu") else None)
        place = torch.device(wanted) if isinstance(wanted, str | torch.device) else None
        if place is None or (place.type == FAR) == (tensor in self._far):
            same = [_HERE if each == place else each for each in rest]
            return function(tensor, *same, **{k: v for k, v in kwargs.items() if k != "device"})
        copied = torch.empty_like(tensor, memory_format=torch.preserve_format)
        if place.type != FAR:
            copied = torch.empty(tensor.shape, dtype=tensor.dtype)
        else:
            self._far.add(copied)
        return copied.copy_(tensor)


def _is(function: Any, name: str) -> bool:
    return bool(getattr(function, "__name__", "") == name)


def _tensors(tree: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]


@contextmanager
def far_device() -> Iterator[Callable[[], int]]:
    """Inside, ``FAR`` is a device; yields a function that counts operations there so far."""
    torch._register_device_module(FAR, _Module)
    far = _Storages()
    try:
        with _Functions(far), _Dispatch(far):
            yield lambda: far.operations
    finally:
        delattr(torch, FAR)
        del sys.modules[f"torch.{FAR}"]
