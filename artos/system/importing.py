"""Imports of users' modules: they end at a call that would start a run, and what they have is kept.

A script that calls ``artos.run`` is imported by the processes of that run, for the workload or the
environment that it defines above the call. So it needs no guard, and never starts itself again.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType


class Imported(BaseException):
    """Ends the import of a file at the call that would start the run for which it is imported."""


class _Here(threading.local):
    depth = 0


_here = _Here()


def stop_if_imported() -> None:
    """Called first by whatever starts a run.

    Raises:
        Imported: this thread is importing a user's file.
    """
    if _here.depth:
        raise Imported


@contextmanager
def until_a_run() -> Iterator[None]:
    """User code is imported in this block, up to the call that would start a run."""
    _here.depth += 1
    try:
        yield
    except Imported:
        return
    finally:
        _here.depth -= 1


def users_module(name: str) -> ModuleType:
    """Import a module; unlike ``importlib`` it keeps one that ends at such a call.

    Raises:
        Exception: whatever its import raises.
    """
    parent, _, child = name.rpartition(".")
    if parent and name not in sys.modules:
        users_module(parent)
    if name in sys.modules:  # also if its package has imported it
        return importlib.import_module(name)
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        return importlib.import_module(name)  # a namespace package; or it raises
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with until_a_run():
            spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    if parent:
        setattr(sys.modules[parent], child, sys.modules[name])
    return sys.modules[name]
