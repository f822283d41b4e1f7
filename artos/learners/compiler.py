"""Functions of one minibatch, compiled by torch where the user asks for it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sysconfig
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar

import torch
from torch import Tensor
from torch.utils import _pytree as trees

from artos.learners.device import Device, on_cpu

Switch = Literal["off", "on"]
WAITS_FOR = "torch to compile its update"
_OPTIONS = {"fallback_random": True, "compile_threads": 1}
"""Torch's own random numbers; and no processes of its own, which would take others' CPUs."""
_P = ParamSpec("_P")
_T = TypeVar("_T")


class Compiler:
    """Calls functions of tensors; if it is ``on``, compiled by ``torch.compile``.

    Arguments and results may be tuples, lists and dicts of tensors, and None. A function is
    compiled again where tensors of other shapes come, or where plain values that it reads, e.g.
    attributes of the learner, have changed: eight times, and then it runs as it is written. On a
    GPU it becomes a CUDA graph, which torch records again where weights have moved since; results
    are copied, as the next call would overwrite them.

    Random numbers are those of torch's generators, compiled or not. With ``bfloat16`` functions run
    in autocast.

    ``told`` is called with what the learner waits for while torch compiles, and with "" after that.
    """

    def __init__(
        self,
        switch: Switch,
        device: Device,
        told: Callable[[str], None] = lambda _: None,
        *,
        bfloat16: bool = False,
    ) -> None:
        self.on, self.told = switch == "on", told
        self._bfloat16, self._type = bfloat16, device.device.type
        self._graphs = not device.is_cpu
        self._compiled: dict[Callable[..., Any], Callable[..., Any]] = {}

    def __call__(self, function: Callable[_P, _T], *given: _P.args, **named: _P.kwargs) -> _T:
        """What the function returns. On a GPU differentiate it before the next call."""
        if self._bfloat16:
            with torch.autocast(self._type, torch.bfloat16):
                return self._called(function, *given, **named)
        return self._called(function, *given, **named)

    def _called(self, function: Callable[_P, _T], *given: _P.args, **named: _P.kwargs) -> _T:
        if not self.on:
            return function(*given, **named)
        compiled = self._compiled.get(function)
        if compiled is None:
            if not self._compiled:
                self._listen()
            compiled = self._compiled[function] = torch.compile(
                function,
                dynamic=False,
                options={**_OPTIONS, "triton.cudagraphs": self._graphs},
            )
        if self._graphs:
            torch.compiler.cudagraph_mark_step_begin()  # type: ignore[no-untyped-call]
        found: _T = compiled(*given, **named)
        return trees.tree_map_only(Tensor, Tensor.clone, found) if self._graphs else found

    def _listen(self) -> None:
        """Have torch say when it compiles: in a call, in its first gradient, at other shapes."""
        from torch._dynamo.callback import (  # noqa: PLC0415  # takes a second
            on_compile_end,
            on_compile_start,
        )

        compiler = weakref.ref(self)
        on_compile_start(lambda _: _tell(compiler, WAITS_FOR))
        on_compile_end(lambda _: _tell(compiler, ""))


def _tell(of: weakref.ref[Compiler], what: str) -> None:
    if compiler := of():
        compiler.told(what)


def faults(device: str) -> Iterator[str]:
    """What torch lacks on this machine to compile for the device that a user named."""
    if not (on_cpu(device) or torch.cuda.is_available()):
        return  # that the device is missing is said elsewhere
    if on_cpu(device) or device == "auto":
        yield from _lacking("CXX", "g++")
    if not on_cpu(device):
        yield from _lacking("CC", "gcc")
        if importlib.util.find_spec("triton") is None:
            yield f"compile=on on {device} needs triton: pip install triton, or leave out compile"
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        yield (
            "compile=on needs the headers of Python (Python.h): install python3-dev, or leave out "
            "compile"
        )


def _lacking(variable: str, usual: str) -> Iterator[str]:
    name = os.environ.get(variable) or usual
    if shutil.which(name) is None:
        yield (
            f"compile=on needs the compiler {name}, which is not on the PATH: install it "
            f"(apt install g++), name another one in {variable}, or leave out compile"
        )
