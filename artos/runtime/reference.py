"""Finds the user's workload: imports the module or file, calls a builder with its settings."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, get_type_hints

import msgspec

from artos.errors import Refused
from artos.plan import Reference
from artos.spec import Workload, closest

_OURS = ("head", "workers", "deploy", "evaluation")


def load_object(source: str, folder: str = "") -> Any:
    """Import ``module:object`` or ``file.py:object``.

    The user's folder comes first on the import path, and our daemon packages are out of the way while
    user code is imported, so a ``workers.py`` of the user's is found by the user's own imports.

    Raises:
        Refused: no such file, module or object, or its import raised.
    """
    place, _, name = source.rpartition(":")
    if not place or not name:
        raise Refused([f"{source!r} names no workload: write ALGORITHM or FILE.py:OBJECT"])
    module = _import_file(Path(place)) if place.endswith(".py") else _import_module(place, folder)
    try:
        return getattr(module, name)
    except AttributeError:
        known = [n for n in vars(module) if not n.startswith("_")]
        raise Refused([f"{place} has no object {name!r}{closest(name, known)}"]) from None


def _import_module(name: str, folder: str) -> Any:
    try:
        return _with_folder(folder, lambda: importlib.import_module(name))
    except Exception as error:
        raise Refused([f"cannot import {name}: {last_lines(error)}"]) from error


def _import_file(path: Path) -> Any:
    path = path.resolve()
    if not path.is_file():
        near = closest(path.name, [p.name for p in path.parent.glob("*.py")])
        raise Refused([f"there is no file {path}{near}"])
    name = f"artos_user_{path.stem}"
    if name in sys.modules and getattr(sys.modules[name], "__file__", "") == str(path):
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise Refused([f"{path} is no Python file"])
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    loader = spec.loader
    try:
        _with_folder(str(path.parent), lambda: loader.exec_module(module))
    except Exception as error:
        del sys.modules[name]
        raise Refused([f"{path} does not import: {last_lines(error)}"]) from error
    return module


def _with_folder(folder: str, load: Callable[[], Any]) -> Any:
    hidden = {n: m for n, m in sys.modules.items() if n.partition(".")[0] in _OURS}
    if folder and folder not in sys.path:
        sys.path.insert(0, folder)
    users_own = bool(folder) and any((Path(folder) / f"{n}.py").exists() for n in _OURS)
    if not users_own:
        return load()
    for name in hidden:
        del sys.modules[name]
    try:
        return load()
    finally:
        sys.modules.update(hidden)


def load_workload(reference: Reference) -> Workload:
    """The workload object: given as it is, or built by a function from the settings.

    Raises:
        Refused: it cannot be imported, is no workload, or the settings do not fit; all faults at once.
    """
    found = load_object(reference.source, reference.folder)
    if isinstance(found, Workload):
        return _override(found, reference.settings)
    if not callable(found):
        raise Refused(
            [f"{reference.source} is a {type(found).__name__}, not a Workload or a function"]
        )
    arguments = fit_settings(found, reference.settings)
    try:
        built = found(**arguments)
    except Refused:
        raise
    except Exception as error:
        raise Refused([f"{reference.source} raised: {last_lines(error)}"]) from error
    if not isinstance(built, Workload):
        raise Refused([f"{reference.source} returned a {type(built).__name__}, not a Workload"])
    return built


def fit_settings(builder: Callable[..., Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Check names and types of settings against a builder's signature and convert text values.

    Raises:
        Refused: unknown names (with the closest) or values of the wrong type, all at once.
    """
    parameters, hints = inspect.signature(builder).parameters, get_type_hints(builder)
    open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    faults, fitted = [], {}
    for name, value in settings.items():
        if name not in parameters and not open_ended:
            if name in ("env", "actors", "total_steps", "seed"):
                continue  # flags every run has; a builder that fixes them need not take them
            faults.append(f"unknown setting {name!r}{closest(name, list(parameters))}")
            continue
        try:
            fitted[name] = _convert(value, hints.get(name, Any))
        except msgspec.ValidationError as error:
            faults.append(f"setting {name}={value!r}: {str(error).lower()}")
    if faults:
        raise Refused(faults)
    return fitted


def _convert(value: Any, kind: Any) -> Any:
    if isinstance(value, str) and kind is not str:
        try:
            value = msgspec.json.decode(value)
        except msgspec.DecodeError:
            value = {"True": True, "False": False, "None": None}.get(value, value)
    return msgspec.convert(value, kind, strict=False)


def _override(workload: Workload, settings: Mapping[str, Any]) -> Workload:
    known = {f.name for f in fields(workload)} | {"env", "seed"}
    unknown = [n for n in settings if n not in known]
    if unknown:
        raise Refused([f"unknown setting {n!r}{closest(n, sorted(known))}" for n in unknown])
    changes = {}
    hints = get_type_hints(Workload)
    for name in ("actors", "total_steps", "steps", "capacity", "on_full"):
        if name in settings:
            changes[name] = _convert(settings[name], hints[name])
    if "env" in settings and hasattr(workload.actor, "env"):
        workload.actor.env = settings["env"]
    return replace(workload, **changes)


def last_lines(error: BaseException, count: int = 6) -> str:
    """The end of a traceback, enough to find the line at fault."""
    text = "".join(traceback.format_exception(error)).strip().splitlines()
    return "\n    ".join([f"{type(error).__name__}: {error}", *text[-count:]])
