"""Workloads of a notebook stand in no file: one is written, in which processes find them."""

from __future__ import annotations

import base64
import hashlib
import inspect
import sys
from pathlib import Path
from typing import Any, get_type_hints

import cloudpickle

from artos.errors import Refused
from artos.system.durable import write_durably

_FILE = '''"""{name} of a notebook, written by artos: its runs are resumed and loaded by this."""

import base64
import pickle
import sys

if sys.version_info[:2] != {python}:
    raise ImportError("{name} was made by Python {python}: run its cell again")
{name} = pickle.loads(base64.b64decode("{data}"))
'''


def kept(workload: Any, name: str, folder: Path) -> Path:
    """Write a file into ``folder`` that has the workload, or function, under its name.

    Functions and classes of the notebook are in it; modules are imported by whoever reads it.

    Raises:
        Refused: something in it cannot be pickled; says why.
    """
    as_written = getattr(workload, "__annotations__", {})
    try:
        if inspect.isfunction(workload):  # where it is read there are not all names of the notebook
            workload.__annotations__ = get_type_hints(workload, include_extras=True)
        data = cloudpickle.dumps(workload)
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        raise Refused(
            [f"{name} stands in no file, and processes of a run cannot be given it: {why}; write "
             f"it to a file (%%writefile {name}.py), and give '{name}.py:{name}'"]
        ) from error  # fmt: skip
    finally:
        if inspect.isfunction(workload):
            workload.__annotations__ = as_written
    encoded, python = base64.b64encode(data).decode(), tuple(sys.version_info[:2])
    text = _FILE.format(name=name, data=encoded, python=python).encode()
    file = folder / f"cell_{name}_{hashlib.sha256(text).hexdigest()[:8]}.py"
    try:
        if not file.exists():
            write_durably(file, text)
    except OSError as error:
        why = f"{file} cannot be written: {error.strerror}"
        raise Refused([f"{name} stands in no file, and {why}; change to another folder"]) from error
    return file
